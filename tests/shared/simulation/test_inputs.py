"""The plan uses every kind of input (docs/spec/design.md), and faulty objects do not affect the others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.simulation.inputs import read_inputs
from tests.shared.simulation.documents import (
    ZONES,
    answer,
    controller,
    ec2_node_class,
    faults,
    instance_type,
    metadata,
    node,
    node_pool,
    offering,
    placed,
    pod,
    pod_spec,
    provisioner,
    run,
)
from tests.support.planning.builders import make_catalogue, make_type

ZONE = "topology.kubernetes.io/zone"
PENDING = {"phase": "Pending"}


def reasons(found: dict[str, Any]) -> dict[str, str]:
    return {one["pod"]: one["reason"] for one in found["unschedulable"]}


def zone_of(found: dict[str, Any]) -> str:
    return str(found["machines"][0]["offering"]["zone"])


def volume(name: str = "data", claim: str = "data") -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": claim}}]}


def claim(**spec: Any) -> dict[str, Any]:
    return {"kind": "PersistentVolumeClaim", "metadata": metadata("data"), "spec": spec}


def test_a_pod_without_status_waits_for_a_machine() -> None:
    assert placed(answer(pod())) == {"default/web": "m5.large"}


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {**pod_spec(), "nodeName": "node-1"}},
        {"spec": {**pod_spec(), "schedulingGates": [{"name": "later"}]}},
        {"status": {"phase": "Running"}},
        {"status": {"phase": "Succeeded"}},
        {"status": {**PENDING, "conditions": [{"type": "PodScheduled", "status": "True"}]}},
    ],
    ids=["bound", "gated", "running", "finished", "scheduled"],
)
def test_pods_that_do_not_wait_are_not_planned(changes: dict[str, Any]) -> None:
    """Which pods are planned (POD-01)."""
    found = answer({**pod(), **changes})
    assert (found["machines"], found["unschedulable"]) == ([], [])


def test_a_pod_that_the_scheduler_has_not_seen_waits_too() -> None:
    assert placed(answer({**pod(), "status": PENDING})) == {"default/web": "m5.large"}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_controllers_are_planned_as_their_pods(kind: str) -> None:
    assert len(placed(answer(controller(kind, replicas=3)))) == 3


def test_a_fault_in_a_pod_template_is_told_once_and_of_its_controller() -> None:
    """The 300 pods are made from the controller, and each has a verdict."""
    wrong = {"spec": pod_spec(cpu="lots")}
    found = answer(controller("Deployment", replicas=300, template=wrong), pod("good"))
    field = "spec.template.spec.containers[0].resources.requests.cpu"
    assert faults(found) == [("Deployment", "default/web", field)]
    assert len(found["unschedulable"]) == 300
    assert placed(found) == {"default/good": "m5.large"}


def test_a_pod_without_containers_is_refused_as_an_api_server_would() -> None:
    """A misspelt field is a fault, not a default."""
    wrong = {**pod(), "spec": {"container": []}}
    found = answer(wrong, pod("good"))
    assert faults(found) == [("Pod", "default/web", "spec.containers")]
    assert reasons(found) == {"default/web": "spec.containers: is required"}


def test_a_generic_ephemeral_volume_needs_no_claim_in_the_file() -> None:
    """The claim is made with the pod, and its storage class decides the zone (POD-07, SCH-93)."""
    topology = {"matchLabelExpressions": [{"key": ZONE, "values": [ZONES[1]]}]}
    scratch = {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}
    gp3 = {
        "kind": "StorageClass",
        "metadata": metadata("gp3"),
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [topology],
    }
    assert zone_of(answer(pod(volumes=[{"name": "a", "ephemeral": scratch}]), gp3)) == ZONES[1]


def test_both_generations_of_pools_and_classes_are_read() -> None:
    """MAP-01; P-19 adds categories c, m and r."""
    template = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate"}
    subnets = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
    given = {**template, "metadata": metadata("default"), "spec": subnets}
    cheap = instance_type("t3.large", offerings=[offering(price=0.05)])
    types = (cheap, instance_type("m5.xlarge", 4))
    assert placed(answer(pod(), provisioner(), given, *types)) == {"default/web": "m5.xlarge"}
    assert placed(answer(pod(), node_pool(), *types)) == {"default/web": "t3.large"}


def test_subnets_of_a_class_decide_over_the_zones() -> None:
    subnets = [{"id": "subnet-1", "zone": ZONES[1]}]
    node_class = {**ec2_node_class(), "status": {"subnets": subnets}}
    assert zone_of(answer(pod(), node_class)) == ZONES[1]
    del node_class["status"]
    assert zone_of(answer(pod(), node_class)) == ZONES[0]


def test_a_class_with_faults_refuses_its_pool_and_says_why() -> None:
    wrong = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": metadata("default"),
    }
    found = answer(pod(), {**wrong, "spec": {}})
    assert ("EC2NodeClass", "default", "spec.subnetSelectorTerms") in faults(found)
    assert "subnetSelectorTerms" in reasons(found)["default/web"]


def test_a_node_from_a_file_is_ready_and_takes_pods() -> None:
    assert placed(answer(pod(), node())) == {"default/web": "node-1"}


def test_a_bound_pod_takes_room_on_its_node() -> None:
    bound = pod("db", cpu="3800m", nodeName="node-1")
    assert placed(answer(pod(), bound, node())) == {"default/web": "m5.large"}


def test_a_node_without_sizes_has_those_of_its_type() -> None:
    bare = node(status={})
    bare["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "m5.large"
    assert placed(answer(pod(), bare)) == {"default/web": "node-1"}


def test_a_node_of_unknown_size_takes_nothing_and_is_a_fault() -> None:
    found = answer(pod(), node(status={}))
    assert placed(found) == {"default/web": "m5.large"}
    assert faults(found) == [("Node", "node-1", "status.allocatable")]


def test_pods_of_a_node_that_goes_find_another_place() -> None:
    """Pods of terminating nodes are planned (POD-09)."""
    going = node()
    going["metadata"] |= {"deletionTimestamp": "2024-01-31T12:00:00Z"}
    going["metadata"]["labels"]["karpenter.sh/nodepool"] = "default"
    assert placed(answer(pod(nodeName="node-1"), going)) == {"default/web": "m5.large"}


@pytest.mark.parametrize(
    ("kind", "version", "label"),
    [
        ("Machine", "karpenter.sh/v1alpha5", "karpenter.sh/provisioner-name"),
        ("NodeClaim", "karpenter.sh/v1", "karpenter.sh/nodepool"),
    ],
)
def test_a_machine_on_its_way_takes_pods(kind: str, version: str, label: str) -> None:
    """SCH-50: order of checks for a node."""
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    machine = {
        "apiVersion": version,
        "kind": kind,
        "metadata": metadata("coming", labels={label: "default"}),
        "spec": {"requirements": [types]},
    }
    assert placed(answer(pod(), machine)) == {"default/web": "coming"}


def test_daemon_sets_take_room_on_new_machines() -> None:
    """SCH-46: daemons of new nodes."""
    daemon = {
        "kind": "DaemonSet",
        "metadata": metadata("agent"),
        "spec": {"template": {"spec": pod_spec("1800m")}},
    }
    found = answer(pod(), daemon)
    assert placed(found) == {"default/web": "m5.xlarge"}
    assert found["machines"][0]["requests"]["cpu"] == "2300m"


def test_a_bound_volume_pins_its_pod_to_a_zone() -> None:
    """SCH-90: a claim from a file that names its volume is bound to it."""
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [ZONES[1]]}]}]
    pv = {
        "kind": "PersistentVolume",
        "metadata": metadata("pv-1"),
        "spec": {
            "csi": {"driver": "ebs.csi.aws.com"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
    assert zone_of(answer(pod(**volume()), pv, claim(volumeName="pv-1"))) == ZONES[1]


@pytest.mark.parametrize("named", [True, False], ids=["named", "default"])
def test_a_storage_class_pins_the_volume_that_will_be_made(named: bool) -> None:
    """Without a name the claim gets the class that is marked as the default."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata("gp3", annotations={} if named else default),
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": [ZONES[1]]}]}],
    }
    wanted = claim(storageClassName="gp3") if named else claim()
    assert zone_of(answer(pod(**volume()), storage_class, wanted)) == ZONES[1]


def test_a_full_csi_node_takes_no_more_volumes() -> None:
    """SCH-91: attach limits."""
    driver = {"name": "ebs.csi.aws.com", "nodeID": "n", "allocatable": {"count": 0}}
    csi_node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata("node-1"),
        "spec": {"drivers": [driver]},
    }
    pv = {
        "kind": "PersistentVolume",
        "metadata": metadata("pv-1"),
        "spec": {"csi": {"driver": "ebs.csi.aws.com"}},
    }
    objects = (pod(**volume()), pv, claim(volumeName="pv-1"), node())
    assert placed(answer(*objects)) == {"default/web": "node-1"}
    assert placed(answer(*objects, csi_node)) == {"default/web": "m5.large"}


def test_budgets_and_namespaces_are_taken_and_change_nothing() -> None:
    others = [
        {"kind": kind, "metadata": metadata("a"), "spec": {}}
        for kind in ("PodDisruptionBudget", "Namespace")
    ]
    found = run(pod(), node_pool(), instance_type(), *others)
    assert placed(found.answer) == {"default/web": "m5.large"}
    assert (found.answer["faults"], found.ignored) == ([], {})


def test_what_is_sold_out_is_not_planned() -> None:
    sold_out = [offering(ZONES[0], 0.01, available=False), offering(ZONES[1], 0.5)]
    assert zone_of(answer(pod(), instance_type(offerings=sold_out))) == ZONES[1]


def overlay(name: str = "discount", **spec: Any) -> dict[str, Any]:
    version = {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay"}
    return {**version, "metadata": metadata(name), "spec": {"requirements": [], **spec}}


def only(name: str) -> list[dict[str, Any]]:
    return [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}]


CHEAP_AND_DEAR = (
    instance_type("m5.large", offerings=[offering(price=0.1)]),
    instance_type("m6i.large", offerings=[offering(price=0.2)]),
)


def test_an_overlay_changes_prices_as_in_the_scheduler() -> None:
    """NO-01: another type is the cheapest, and the plan costs what the overlay says."""
    usual = answer(pod(), *CHEAP_AND_DEAR)
    assert (placed(usual), usual["cost"]["hourly"]) == ({"default/web": "m5.large"}, 0.1)
    discount = overlay(priceAdjustment="-75%", requirements=only("m6i.large"))
    found = answer(pod(), *CHEAP_AND_DEAR, discount)
    assert (placed(found), found["cost"]["hourly"]) == ({"default/web": "m6i.large"}, 0.05)
    assert found["faults"] == []


def test_an_overlay_gives_a_type_an_extended_resource() -> None:
    """An overlay may add a device that EC2 does not list (NO-01)."""
    limits = {"limits": {"example.com/fpga": "1"}, "requests": {"example.com/fpga": "1"}}
    wanting = pod(containers=[{"name": "app", "resources": limits}])
    assert placed(answer(wanting, *CHEAP_AND_DEAR)) == {}
    device = overlay(capacity={"example.com/fpga": "1"}, requirements=only("m6i.large"))
    assert placed(answer(wanting, *CHEAP_AND_DEAR, device)) == {"default/web": "m6i.large"}


def test_overlays_that_contradict_each_other_are_faults_and_change_nothing() -> None:
    """NO-01: NodeOverlays."""
    two = [overlay(name, price=price) for name, price in (("a", "0.01"), ("b", "0.02"))]
    found = answer(pod(), *CHEAP_AND_DEAR, *two)
    assert found["cost"]["hourly"] == 0.1
    assert [(one["kind"], one["name"]) for one in found["faults"]] == [
        ("NodeOverlay", "a"), ("NodeOverlay", "b"),
    ]  # fmt: skip


def test_a_catalogue_that_is_corrected_is_not_corrected_again() -> None:
    """The scheduler's catalogue has the overlays of the cluster applied already."""
    kind = make_type("m5.large")
    offerings = tuple(replace(one, overlaid=True) for one in kind.offerings)
    corrected = make_catalogue((replace(kind, offerings=offerings),))
    documents = [overlay(priceAdjustment="-50%")]
    found = read_inputs(documents, lambda: corrected, most_pods=10)
    assert found.snapshot.catalogue == corrected
    assert [one.kind for one in found.faults] == ["NodeOverlay"]


def test_faults_are_named_and_the_rest_is_planned() -> None:
    found = answer(
        pod("bad", cpu="much"),
        pod("good"),
        {**node_pool("broken"), "spec": {}},
        node_pool(),
        instance_type(offerings=[offering(price=-1)]),
        instance_type("m5.xlarge", 4),
        {**node("odd"), "spec": {"taints": [7]}},
        {"kind": "DaemonSet", "metadata": metadata("agent"), "spec": 7},
    )
    assert placed(found) == {"default/good": "m5.xlarge"}
    assert set(faults(found)) == {
        ("Pod", "default/bad", "spec.containers[0].resources.requests.cpu"),
        ("NodePool", "broken", "spec.template"),
        ("InstanceType", "m5.large", "spec.offerings[0].price"),
        ("Node", "odd", "spec.taints[0]"),
        ("DaemonSet", "default/agent", "spec"),
    }
    assert "is not a quantity" in reasons(found)["default/bad"]


def test_a_misspelt_field_is_told_and_the_rest_of_its_object_counts() -> None:
    """An API server would drop an unknown field, so the user must see that the plan ignores it."""
    pool = node_pool(requirments=[{"key": "kubernetes.io/arch", "operator": "Exists"}])
    found = answer(pod(), pool)
    assert placed(found) == {"default/web": "m5.large"}
    assert faults(found) == [("NodePool", "default", "spec.template.spec.requirments")]
    assert found["faults"][0]["message"] == "unknown field; did you mean requirements?"


def test_a_catalogue_of_which_nothing_is_left_is_not_replaced_by_another() -> None:
    nameless = {**instance_type(), "metadata": {}}
    found = run(pod(), node_pool(), nameless).answer
    assert (found["machines"], faults(found)) == ([], [("InstanceType", "", "metadata.name")])


def test_inputs_without_anything_usable_say_so() -> None:
    assert not run({"kind": "Pod"}, instance_type(offerings=[])).usable
    assert not run(pod(cpu="much"), instance_type(offerings=[])).usable
    assert run(pod(), instance_type()).usable


def unready_pool(status: Any) -> dict[str, Any]:
    return {**node_pool(), "status": {"conditions": status}}


def test_a_pool_that_is_not_ready_is_not_planned_for() -> None:
    """A pool that is not ready is not used, and the reason is its condition's message (NP-21)."""
    condition = {"type": "Ready", "status": "False", "message": "NodeClassReady=False"}
    found = answer(pod(), unready_pool([condition]))
    assert found["machines"] == []
    assert 'nodepool "default" cannot be used' in reasons(found)["default/web"]
    assert "NodeClassReady=False" in reasons(found)["default/web"]


@pytest.mark.parametrize(
    "status",
    [None, "odd", [], ["odd"], [{"type": "Ready", "status": "True"}], [{"type": "Ready"}],
     [{"type": "NodeClassReady", "status": "False"}]],
)  # fmt: skip
def test_a_pool_that_does_not_say_so_is_ready(status: Any) -> None:
    assert placed(answer(pod(), unready_pool(status))) == {"default/web": "m5.large"}


def test_a_pool_whose_requirements_leave_no_type_names_them() -> None:
    """SCH-112: the event NoCompatibleInstanceTypes."""
    arm = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    text = reasons(answer(pod(), node_pool(requirements=[arm])))["default/web"]
    assert "nodepool requirements filtered out all available instance types" in text
    assert "kubernetes.io/arch In [arm64]" in text
    assert "karpenter.sh/nodepool" not in text
