"""The smallest change that places a pending pod (``dovetail explain pod``)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.workloads.pods import Owner
from shared.errors import NotFound
from shared.simulation.changes.answer import document_of
from shared.simulation.changes.search import NO_CAPACITY, PodExplanation, explain_pod
from shared.simulation.inputs import read_inputs
from shared.solver.solve import SolverSettings
from tests.shared.simulation.changes.manifests import edited
from tests.shared.simulation.documents import (
    Document,
    instance_type,
    no_catalogue,
    node,
    node_pool,
    offering,
    pod,
    provisioner,
)
from tests.support.planning.builders import make_pod, make_snapshot

TAINT = {"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}
ARCH, ZONE, TEAM = "kubernetes.io/arch", "topology.kubernetes.io/zone", "example.com/team"
TYPE = "node.kubernetes.io/instance-type"
TYPES = [
    instance_type(offerings=[offering(), offering("us-east-1b")]),
    instance_type("m5.xlarge", 4, "16Gi", offerings=[offering(price=0.2)]),
    instance_type("m6g.large", 2, "8Gi", labels={ARCH: "arm64"}, offerings=[offering(price=0.08)]),
]


def explained(*documents: Document, **options: Any) -> PodExplanation:
    """About the pod that is named web."""
    inputs = read_inputs([*documents, *TYPES], no_catalogue, 1000)
    assert inputs.faults == ()
    (uid,) = (one.uid for one in inputs.snapshot.pods if one.name == "web")
    return explain_pod(inputs.snapshot, uid, SolverSettings(), **options)


def changes(*documents: Document) -> list[tuple[str, str, Any]]:
    return [(e.field, e.action, e.value) for e in explained(*documents).smallest]


def test_a_pod_that_waits_for_capacity_alone_is_told_so() -> None:
    """The planner's verdict has Karpenter's words, which sound like a mistake in the requirements."""
    gone = [offering(zone, available=False) for zone in ("us-east-1a", "us-east-1b")]
    sold_out = instance_type("c5.large", offerings=gone)
    only = node_pool(requirements=[{"key": TYPE, "operator": "In", "values": ["c5.large"]}])
    found = explained(pod(), only, sold_out)
    assert found.state == "pending"
    assert found.verdict.startswith(f"{NO_CAPACITY}; incompatible with nodepool")
    too_large = explained(pod(cpu="64"), only, sold_out)
    assert NO_CAPACITY not in too_large.verdict


def limited(**limits: str) -> Document:
    pool = node_pool()
    pool["spec"]["limits"] = limits
    return pool


def requiring(key: str, *values: str) -> Document:
    return node_pool(requirements=[{"key": key, "operator": "In", "values": list(values)}])


def test_a_taint_asks_for_a_toleration() -> None:
    wanted = {"key": "example.com/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    assert changes(pod(), node_pool(taints=[TAINT])) == [("spec.tolerations", "add", wanted)]


def test_a_request_that_no_type_has_is_lowered_to_the_largest_that_fits() -> None:
    found = changes(pod(cpu="64"), node_pool())
    assert found == [("spec.containers[].resources.requests.cpu", "set", "4")]


def test_a_resource_that_nothing_has_is_removed() -> None:
    unknown = pod()
    unknown["spec"]["containers"][0]["resources"]["requests"]["example.com/quantum"] = "1"
    field = "spec.containers[].resources.requests.example.com/quantum"
    assert changes(unknown, node_pool()) == [(field, "remove", None)]


def test_a_limit_is_raised_by_as_much_as_is_needed() -> None:
    assert changes(pod(cpu="3"), limited(cpu="1")) == [("spec.limits.cpu", "set", "4")]


def test_two_limits_that_both_block_are_raised_together() -> None:
    found = changes(pod(cpu="3"), limited(cpu="1", memory="1Gi"))
    assert found == [("spec.limits.cpu", "set", "4"), ("spec.limits.memory", "set", "16Gi")]


def test_a_requirement_is_widened_by_the_value_that_the_pod_wants() -> None:
    found = changes(pod(nodeSelector={ARCH: "arm64"}), requiring(ARCH, "amd64"))
    both = [{"key": ARCH, "operator": "In", "values": ["amd64", "arm64"]}]
    assert found == [("spec.template.spec.requirements", "set", both)]


def test_a_label_that_no_node_has_is_proposed_for_the_pool() -> None:
    found = changes(pod(nodeSelector={TEAM: "web"}), node_pool())
    assert found == [("spec.template.metadata.labels", "add", {TEAM: "web"})]


def test_a_zone_that_does_not_exist_is_removed_from_the_pod() -> None:
    found = changes(pod(nodeSelector={ZONE: "mars-1a"}), node_pool())
    assert found == [("spec.nodeSelector", "remove", ZONE)]


def test_fields_of_the_older_generation_are_named_as_it_names_them() -> None:
    capacity = pod(nodeSelector={"karpenter.sh/capacity-type": "spot"}, cpu="1")
    (edit,) = explained(capacity, provisioner(labels={TEAM: "web"}), *spot_types()).smallest
    assert (edit.object, edit.field) == ("Provisioner default", "spec.requirements")


def spot_types() -> list[Document]:
    return [instance_type("c5.large", offerings=[offering(capacityType="spot", price=0.03)])]


def test_of_several_pools_the_one_that_lacks_least_is_first() -> None:
    needy = pod(nodeSelector={ARCH: "arm64"})
    far = requiring(ARCH, "amd64")
    far["spec"]["template"]["spec"]["taints"] = [TAINT]
    near = node_pool("near", taints=[TAINT])
    found = explained(needy, far, near)
    assert [one.pool for one in found.pools] == ["NodePool/near", "NodePool/default"]
    assert [len(one.edits) for one in found.pools] == [1, 2]
    assert "did not tolerate" in found.verdict


def test_a_pod_that_is_planned_needs_no_change() -> None:
    assert explained(pod(), node_pool()).state == "placeable"


def test_a_pod_on_a_node_needs_no_change() -> None:
    assert explained(pod(nodeName="n1"), node_pool()).state == "bound"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"terminating": True}, "ending"),
        ({"owner": Owner("DaemonSet", "agent", "1")}, "DaemonSet"),
        ({"owner": Owner("Node", "n1", "1")}, "belongs to a node"),
        ({"nominated_node": "n1"}, "a place is kept for it on n1"),
        ({"expendable": True, "priority": -20}, "-20 is below EXPENDABLE_PODS_PRIORITY_CUTOFF"),
        (
            {"required_terms": ((Expression(keys.NODE_POOL, "DoesNotExist"),),)},
            "excludes the nodes",
        ),
        ({"unschedulable": False}, "schedulingGates"),
    ],
)
def test_a_pod_that_waits_for_no_machine_is_told_why(changes: dict[str, Any], word: str) -> None:
    waits = make_pod("web", **changes)
    found = explain_pod(make_snapshot(waits), waits.uid, SolverSettings())
    assert found.state == "bound"
    assert word in found.verdict


def test_without_a_pool_the_verdict_says_what_to_create() -> None:
    found = explained(pod())
    assert (found.smallest, found.pools) == ((), ())
    assert "create one" in found.verdict


def test_a_pool_that_no_change_helps_has_none() -> None:
    """Its class does not exist: neither the pod nor the pool can mend that."""
    pool = provisioner(providerRef={"name": "missing"})
    pool["spec"]["requirements"] = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
    ]
    found = explained(pod(volumes=[claim_volume()]), pool)
    assert found.smallest == ()
    assert found.state == "pending"


def claim_volume() -> Document:
    return {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}


def test_pools_behind_the_bound_of_plans_are_named() -> None:
    pools = [node_pool(f"p{number}", taints=[TAINT]) for number in range(4)]
    found = explained(pod(), *pools, most_plans=8)
    assert len(found.pools) + len(found.unexamined) == 4
    assert found.unexamined


def test_an_unknown_pod_is_not_found() -> None:
    inputs = read_inputs([pod(), *TYPES], no_catalogue, 10)
    with pytest.raises(NotFound):
        explain_pod(inputs.snapshot, "somebody", SolverSettings())


def test_other_pending_pods_that_use_up_a_limit_are_counted() -> None:
    """Alone the pod would be placed within the limit; the larger one is planned first."""
    found = changes(pod("web", cpu="1"), pod("big", cpu="2"), limited(cpu="2"))
    assert found == [("spec.limits.cpu", "set", "4")]


rules = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(
            st.sampled_from([ARCH, ZONE, TEAM]),
            st.sampled_from(["arm64", "us-east-1b", "web", "nowhere"]),
            max_size=2,
        ),
        "topologySpreadConstraints": st.just(
            [
                {
                    "maxSkew": 1,
                    "minDomains": 9,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }
            ]
        ),
        "affinity": st.sampled_from(
            [
                {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
                ]}},
                {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [
                        {"key": TEAM, "operator": "In", "values": ["db"]},
                        {"key": ARCH, "operator": "Exists"},
                    ]}]
                }}},
            ]
        ),
    },
)  # fmt: skip
pools = st.builds(
    lambda taints, requirements, limits: _pool(taints, requirements, limits),
    st.sampled_from([[], [TAINT]]),
    st.dictionaries(
        st.sampled_from([ARCH, ZONE, TEAM]),
        st.sampled_from(["amd64", "us-east-1a", "db"]),
        max_size=2,
    ),
    st.sampled_from([{}, {"cpu": "1"}, {"memory": "2Gi", "cpu": "100"}]),
)


def _pool(taints: list[Document], wanted: dict[str, str], limits: dict[str, str]) -> Document:
    requirements = [{"key": k, "operator": "In", "values": [v]} for k, v in wanted.items()]
    pool = node_pool(taints=taints, requirements=requirements)
    pool["spec"]["limits"] = limits
    return pool


@pytest.mark.slow
@given(
    pod_rules=rules,
    pool=pools,
    cpu=st.sampled_from(["100m", "1", "3", "7500m"]),
    memory=st.sampled_from(["64Mi", "15Gi", "100Gi"]),
)
def test_the_change_written_into_the_manifests_places_the_pod(
    pod_rules: Document, pool: Document, cpu: str, memory: str
) -> None:
    """By the words of the answer alone: objects are edited as a person would, read again, and planned."""
    pending = pod(meta={"labels": {"app": "web"}}, cpu=cpu, memory=memory, **pod_rules)
    found = explained(pending, pool)
    if found.state == "placeable":
        return
    document = document_of(found)
    assert document["changes"], document["verdict"]
    mended = edited([pending, pool], document["changes"])
    assert explained(*mended).state == "placeable", document["changes"]


def test_a_limit_is_raised_so_far_that_the_others_that_wait_do_not_use_it_up() -> None:
    """The other pod is larger and comes first: room for this one alone would be taken by it."""
    other = pod("other", cpu="1500m")
    assert changes(pod(cpu="1"), other, limited(cpu="1")) == [("spec.limits.cpu", "set", "4")]


def named(pool: Document, number: int) -> Document:
    return {**pool, "metadata": {"name": f"pool-{number}"}}


def occupied(number: int, cpu: str) -> list[Document]:
    """A node of four cores that is not ours, with a pod on it."""
    held = pod(f"held-{number}", meta={"labels": {"app": "db"}}, cpu=cpu, nodeName=f"node-{number}")
    return [node(f"node-{number}"), {**held, "status": {"phase": "Running"}}]


@pytest.mark.slow
@given(
    pod_rules=rules,
    some_pools=st.lists(pools, min_size=1, max_size=3),
    held=st.lists(st.sampled_from(["100m", "2", "3900m"]), max_size=3),
    waiting=st.lists(st.sampled_from(["100m", "1500m", "7"]), max_size=3),
    cpu=st.sampled_from(["100m", "1", "3", "7500m"]),
)
def test_the_change_places_the_pod_in_any_cluster(
    pod_rules: Document, some_pools: list[Document], held: list[str], waiting: list[str], cpu: str
) -> None:
    """Several pools, nodes that are partly full, and other pods that wait too."""
    cluster = [
        pod(meta={"labels": {"app": "web"}}, cpu=cpu, **pod_rules),
        *(named(one, number) for number, one in enumerate(some_pools)),
        *(one for number, used in enumerate(held) for one in occupied(number, used)),
        *(pod(f"other-{number}", cpu=wanted) for number, wanted in enumerate(waiting)),
    ]
    found = explained(*cluster)
    if found.state == "placeable":
        return
    document = document_of(found)
    assert document["changes"], document["verdict"]
    mended = edited(cluster, document["changes"])
    assert explained(*mended).state == "placeable", document["changes"]


def test_a_pool_whose_room_others_take_is_not_named_for_what_another_pool_gives() -> None:
    """With the toleration alone the pod gets a machine of the roomy pool: of this one the larger pod takes all."""
    tolerant = [{**TAINT, "operator": "Equal"}]
    other = pod("other", cpu="3", tolerations=tolerant, nodeSelector={keys.NODE_POOL: "small"})
    small = node_pool("small", taints=[TAINT])
    small["spec"]["limits"] = {"cpu": "4"}
    found = explained(pod(cpu="3"), other, small, node_pool("roomy", taints=[TAINT]))
    fields = {one.pool: [edit.field for edit in one.edits] for one in found.pools}
    assert fields == {
        "NodePool/roomy": ["spec.tolerations"],
        "NodePool/small": ["spec.tolerations", "spec.limits.cpu"],
    }
