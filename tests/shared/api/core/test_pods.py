"""Pods and daemon sets as the planner sees them (POD-01..07, SCH-60)."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.core.expressions import parse_expressions
from shared.api.core.pod_requests import pod_requests
from shared.api.core.pods import parse_daemon_set, parse_pod
from shared.domain import labels as keys
from shared.domain.devices.records import PodClaim
from shared.domain.expressions import Expression, Taint, Toleration
from shared.domain.records import decode_record
from shared.domain.workloads.namespaces import NamespaceSelector
from shared.domain.workloads.pods import NOBODY, AffinityTerm, Owner, is_provisionable
from shared.errors import InvalidObject
from tests.shared.api.conftest import document, json_values, objects

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WAITING = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}
WORDS = (
    "containers", "initContainers", "resources", "requests", "limits", "cpu", "memory", "affinity",
    "nodeAffinity", "podAffinity", "podAntiAffinity", REQUIRED, PREFERRED, "nodeSelectorTerms",
    "matchExpressions", "matchFields", "key", "operator", "values", "In", "tolerations",
    "topologySpreadConstraints", "topologyKey", "labelSelector", "matchLabels", "maxSkew", "weight",
    "preference", "podAffinityTerm", "namespaces", "nodeSelector", "nodeName", "priority",
    "priorityClassName", "volumes", "persistentVolumeClaim", "ephemeral", "ports", "hostPort",
    "overhead", "restartPolicy", "conditions", "type", "phase", "nominatedNodeName", "minDomains",
)  # fmt: skip


def container(cpu: str = "", memory: str = "", **changes: Any) -> dict[str, Any]:
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"name": "main", "resources": {"requests": requests}, **changes}


def required(key: str, operator: str = "Exists") -> dict[str, Any]:
    """A required node affinity of one expression."""
    terms = [{"matchExpressions": [{"key": key, "operator": operator}]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


ZONAL = {"matchExpressions": [{"key": keys.ZONE, "operator": "Exists"}]}


def either(*terms: dict[str, Any]) -> dict[str, Any]:
    """A required node affinity of these terms."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def spread(**changes: Any) -> dict[str, Any]:
    """One spread constraint over zones."""
    return {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, **changes}]}


def together(**changes: Any) -> dict[str, Any]:
    """One required pod affinity term."""
    return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **changes}]}}}


def test_containers_add_up_and_each_pod_takes_one_pod_slot() -> None:
    """SCH-60: requests of a pod."""
    spec = {"containers": [container("500m", "1Gi"), container("250m")]}
    assert pod_requests(spec) == {"cpu": 750, "memory": 1024**3, "pods": 1}


def test_an_init_container_counts_only_where_it_is_larger() -> None:
    """SCH-60: the larger of the steady sum and each init container's peak, name by name."""
    spec = {
        "containers": [container("500m", "1Gi")],
        "initContainers": [container("2", "128Mi"), container("1", "64Mi")],
    }
    assert pod_requests(spec) == {"cpu": 2000, "memory": 1024**3, "pods": 1}


def test_sidecars_add_to_the_steady_sum_and_to_later_init_containers() -> None:
    """SCH-60: restartPolicy Always; only earlier sidecars count for an init container's peak."""
    sidecar = container("300m", restartPolicy="Always")
    spec = {"containers": [container("1")], "initContainers": [sidecar, container("900m")]}
    assert pod_requests(spec)["cpu"] == 1300
    spec["initContainers"] = [sidecar, container("2")]
    assert pod_requests(spec)["cpu"] == 2300
    spec["initContainers"] = [container("2"), sidecar]
    assert pod_requests(spec)["cpu"] == 2000


def test_overhead_of_the_runtime_class_is_added() -> None:
    """SCH-60: requests of a pod."""
    spec = {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "120Mi"}}
    assert pod_requests(spec) == {"cpu": 1250, "memory": 120 * 1024**2, "pods": 1}


def test_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    """SCH-60: cpu, memory and huge pages of ``spec.resources``; overhead comes on top, other names stay."""
    whole = {"requests": {"cpu": "4", "hugepages-2Mi": "4Mi", "example.com/x": "9"}}
    spec = {
        "resources": whole,
        "containers": [container("500m", "1Gi")],
        "initContainers": [container("6")],
        "overhead": {"cpu": "250m"},
    }
    asked = {"cpu": 4250, "memory": 1024**3, "hugepages-2Mi": 4 * 1024**2, "pods": 1}
    assert pod_requests(spec) == asked


def test_a_limit_of_the_whole_pod_is_its_request_where_no_container_asks() -> None:
    """SCH-60: as the API server defaults it."""
    spec = {"resources": {"limits": {"cpu": "4", "memory": "2Gi"}}, "containers": [container("1")]}
    assert pod_requests(spec) == {"cpu": 1000, "memory": 2 * 1024**3, "pods": 1}


def test_a_wrong_quantity_of_the_whole_pod_is_named() -> None:
    with pytest.raises(InvalidObject) as refused:
        pod_requests({"resources": {"requests": {"cpu": "many"}}, "containers": [container()]})
    assert refused.value.field == "spec.resources.requests.cpu"


def test_a_limit_without_request_is_the_request() -> None:
    """The API server defaults requests to limits; a pod that was not defaulted reads the same."""
    limits = {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
    spec = {"containers": [{"name": "main", "resources": limits}]}
    assert pod_requests(spec) == {"cpu": 1000, "nvidia.com/gpu": 1, "pods": 1}


def test_a_resize_in_place_counts_what_the_kubelet_still_holds() -> None:
    """SCH-60: the larger of the specification and what is allocated."""
    spec = {"containers": [container("500m", "1Gi")]}
    held = [{"name": "main", "allocatedResources": {"cpu": "2", "memory": "512Mi"}}]
    status = {"containerStatuses": held}
    assert pod_requests(spec, status) == {"cpu": 2000, "memory": 1024**3, "pods": 1}
    assert parse_pod(document(spec, status)).requests["cpu"] == 2000


def test_every_port_of_a_pod_on_the_hosts_network_is_a_host_port() -> None:
    """SCH-90: the API server says so of what it stores; a file does not."""
    ports = [{"containerPort": 9100}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]
    spec: dict[str, Any] = {"containers": [container("1", ports=ports)]}
    assert parse_pod(document(spec)).host_ports == (("UDP", "0.0.0.0", 53),)
    on_host = (("TCP", "0.0.0.0", 9100), ("UDP", "0.0.0.0", 53))
    assert parse_pod(document({**spec, "hostNetwork": True})).host_ports == on_host


def test_an_empty_node_selector_term_matches_no_node() -> None:
    """Kubernetes: a null or empty term selects nothing, so beside another it has no say."""
    pod = parse_pod(document(either({}, {"matchExpressions": None}, ZONAL)))
    assert pod.required_terms == ((Expression(keys.ZONE, "Exists", ()),),)
    assert pod.faults == ()


def test_a_pod_that_no_node_can_match_has_a_fault() -> None:
    """No node is bought for a pod that kube-scheduler puts on none."""
    fault = parse_pod(document(either({}))).faults[0]
    assert fault.startswith(f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: ")
    with pytest.raises(InvalidObject):
        parse_daemon_set(document({"template": {"spec": either({})}}))


def test_a_daemon_pod_is_pinned_to_a_node_by_its_controller_which_is_no_fault() -> None:
    """SCH-46: its requests stand for its daemon set; for other pods the same is a fault (POD-05)."""
    pinned = either({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})
    owner = {"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    assert parse_pod(document(pinned, ownerReferences=[owner])).faults == ()
    assert parse_pod(document(pinned)).faults != ()


def test_a_waiting_pod_is_provisionable() -> None:
    """POD-01: which pods are provisioned for."""
    pod = parse_pod(document({"containers": [container("1")]}, WAITING))
    assert pod.unschedulable
    assert is_provisionable(pod)
    assert pod.key == "default/one"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"nodeName": "n"}},
        {"status": {**WAITING, "nominatedNodeName": "n"}},
        {"status": {"conditions": [{**WAITING["conditions"][0], "reason": "SchedulingGated"}]}},  # type: ignore[dict-item]
        {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]},
        {"ownerReferences": [{"kind": "Node", "name": "n", "uid": "u"}]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=["bound", "nominated", "gated", "daemon", "mirror", "leaving"],
)
def test_pods_that_do_not_wait_for_capacity_are_not_provisionable(change: dict[str, Any]) -> None:
    """POD-01: which pods are provisioned for; POD-02: custom scheduler names."""
    assert not is_provisionable(parse_pod(document(**{"status": WAITING, **change})))


def test_every_field_that_scheduling_reads_arrives() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    spec = {
        "containers": [{**container("1"), "ports": [{"hostPort": 80}, {"containerPort": 81}]}],
        "nodeSelector": {"beta.kubernetes.io/arch": "arm64"},
        "tolerations": [{"operator": "Exists"}, {"key": "team", "value": "x"}],
        "priority": 7,
        "priorityClassName": "high",
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
                    ]
                },
                PREFERRED: [
                    {
                        "weight": 5,
                        "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
                    }
                ],
            },
            "podAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": term}]},
            "podAntiAffinity": {REQUIRED: [{**term, "namespaces": ["other"]}]},
        },
        "topologySpreadConstraints": [
            {**term, "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3}
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "settings", "configMap": {"name": "c"}},
        ],
    }
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
    annotations = {"karpenter.sh/do-not-evict": "true"}
    pod = parse_pod(document(spec, ownerReferences=[owner], annotations=annotations))
    assert pod.faults == ()
    assert pod.node_selector == {"kubernetes.io/arch": "arm64"}  # SCH-03
    assert pod.tolerations == (Toleration("", "Exists"), Toleration("team", "Equal", "x"))
    assert pod.required_terms == ((Expression("k", "In", ("v",)),),)
    assert [(t.weight, t.expressions) for t in pod.preferred_terms] == [
        (5, (Expression("k", "Exists"),))
    ]
    assert [(t.weight, t.match_labels) for t in pod.affinity] == [(9, {"a": "b"})]
    assert [(t.weight, t.namespaces) for t in pod.anti_affinity] == [(None, ("other",))]
    (spread,) = pod.spread
    assert (spread.max_skew, spread.when_unsatisfiable, spread.min_domains) == (
        2,
        "ScheduleAnyway",
        3,
    )
    assert pod.host_ports == (("TCP", "0.0.0.0", 80),)
    assert pod.volume_claims == ("claim", "one-scratch")  # POD-07
    assert (pod.priority, pod.priority_class) == (7, "high")
    assert pod.owner == Owner("ReplicaSet", "rs", "u")
    assert pod.do_not_disrupt == "true"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [container("lots")]}, "spec.containers[0].resources.requests.cpu"),
        ({"initContainers": [container("-1")]}, "spec.initContainers[0].resources.requests.cpu"),
        ({"overhead": {"memory": "x"}}, "spec.overhead.memory"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "k", "operator": "Near"}]}
                            ]
                        }
                    }
                }
            },
            f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{}]}]}}
                }
            },
            "nodeSelectorTerms[0].matchFields",
        ),
        ({"tolerations": [{}] * 1001}, "spec.tolerations"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1}]},
            "topologySpreadConstraints[0].topologyKey",
        ),
        ({"nodeSelector": ["a"]}, "spec.nodeSelector"),
        ({"nodeSelector": {"team": "not a label value"}}, "spec.nodeSelector[team]"),
        ({"tolerations": [{"operator": "Exists"}] * 10_000}, "spec.tolerations"),
        (required("kubernetes.io/hostname"), "kubernetes.io/hostname is restricted"),
        (required("karpenter.sh/initialized"), "karpenter.sh/initialized is restricted"),
        (spread(maxSkew=0), "topologySpreadConstraints[0].maxSkew"),
        (spread(minDomains=0), "topologySpreadConstraints[0].minDomains"),
        (spread(whenUnsatisfiable="Never"), "topologySpreadConstraints[0].whenUnsatisfiable"),
        (spread(nodeAffinityPolicy="No"), "topologySpreadConstraints[0].nodeAffinityPolicy"),
        (spread(nodeTaintsPolicy="No"), "topologySpreadConstraints[0].nodeTaintsPolicy"),
        (
            spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            "topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator",
        ),
        (
            together(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            f"podAffinity.{REQUIRED}[0].namespaceSelector.matchExpressions[0].operator",
        ),
    ],
)
def test_a_fault_names_its_field_and_the_pod_stays_a_record(
    spec: dict[str, Any], field: str
) -> None:
    """POD-03: a faulty pod is left out; POD-05: affinity that cannot be served; F27: faulty objects."""
    pod = parse_pod(document(spec, WAITING))
    (fault,) = pod.faults
    assert field in fault
    assert pod.requests["pods"] == 1
    assert is_provisionable(pod)


@pytest.mark.parametrize("key", [keys.NODE_POOL, keys.PROVISIONER_NAME])
def test_a_pod_that_refuses_every_pool_is_left_alone_in_silence(key: str) -> None:
    """POD-04: a pod that opts out."""
    pod = parse_pod(document(required(key, "DoesNotExist"), WAITING))
    assert pod.faults == ()
    assert not is_provisionable(pod)


@pytest.mark.parametrize("key", [keys.NODE_POOL, keys.NODE_CLASS, keys.ZONE, "example.com/team"])
def test_labels_that_a_new_node_has_may_be_asked_for(key: str) -> None:
    """POD-05: affinity that cannot be served."""
    pod = parse_pod(document(required(key), WAITING))
    assert pod.faults == ()
    assert is_provisionable(pod)


@pytest.mark.parametrize(
    ("term", "names", "selector"),
    [
        ({}, None, None),
        ({"namespaces": ["red"]}, ("red",), None),
        ({"namespaceSelector": {}}, (), None),
        ({"namespaceSelector": {"matchLabels": {}}, "namespaces": ["red"]}, (), None),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, None, ({"team": "red"}, ())),
        (
            {
                "namespaces": ["blue"],
                "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            },
            ("blue",),
            ({}, (Expression("team", "Exists"),)),
        ),
    ],
)
def test_an_affinity_term_names_namespaces_or_selects_them(
    term: dict[str, Any], names: tuple[str, ...] | None, selector: tuple[Any, ...] | None
) -> None:
    """SCH-83: an empty selector means all namespaces, none at all the pod's own."""
    (found,) = parse_pod(document(together(**term))).affinity
    assert found.namespaces == names
    assert found.namespace_selector == (NamespaceSelector(*selector) if selector else None)


def test_the_policies_of_a_spread_have_the_defaults_of_kubernetes() -> None:
    """SCH-76: node policies of spread constraints."""
    (plain,) = parse_pod(document(spread())).spread
    assert (plain.node_affinity_policy, plain.node_taints_policy) == ("Honor", "Ignore")
    told = spread(nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")
    (changed,) = parse_pod(document(told)).spread
    assert (changed.node_affinity_policy, changed.node_taints_policy) == ("Ignore", "Honor")


def test_an_absent_selector_selects_nobody_and_an_empty_one_everybody() -> None:
    """SCH-70: as LabelSelectorAsSelector of apimachinery."""
    assert parse_pod(document(spread())).spread[0].expressions == (NOBODY,)
    assert parse_pod(document(spread(labelSelector={}))).spread[0].expressions == ()


@pytest.mark.parametrize(
    ("term", "namespaces"),
    [
        ({}, None),
        ({"namespaces": ["a"]}, ("a",)),
        ({"namespaceSelector": {}}, ()),
        ({"namespaces": ["a"], "namespaceSelector": {}}, ()),
        ({"namespaceSelector": {"matchLabels": {}}}, ()),
    ],
)
def test_the_namespaces_of_a_term(term: dict[str, Any], namespaces: tuple[str, ...] | None) -> None:
    """SCH-83: none named is the pod's own, an empty selector is all."""
    assert parse_pod(document(together(**term))).affinity[0].namespaces == namespaces


def test_a_sum_beyond_64_bits_is_a_fault_and_not_a_crash_of_the_mirror() -> None:
    """F27: each container is legal for the API server, the sum is not representable."""
    pod = parse_pod(document({"containers": [container(memory="4Ei")] * 10}, WAITING))
    assert "spec.containers" in pod.faults[0]
    assert decode_record("pods", msgspec.json.encode(pod)) == pod


def test_an_affinity_value_that_a_shell_would_read_is_a_fault() -> None:
    """Values of requirements become node labels in a boot script (LCH-37)."""
    expression = {"key": "example.com/x", "operator": "In", "values": ["' ; reboot ; '"]}
    with pytest.raises(InvalidObject, match=r"f\[0\]\.values"):
        parse_expressions([expression], field="f")


@given(objects(*WORDS), json_values(*WORDS))
def test_no_pod_whatever_it_holds_stops_the_reader(spec: dict[str, Any], status: object) -> None:
    """F27: every pod is a record, and every record survives the mirror."""
    pod = parse_pod(document(spec, status))
    assert decode_record("pods", msgspec.json.encode(pod)) == pod


@given(
    st.lists(objects(*WORDS), max_size=3), st.sampled_from(("containers", "volumes", "tolerations"))
)
def test_no_list_entry_of_a_pod_stops_the_reader(listed: list[dict[str, Any]], name: str) -> None:
    """F27, one level deeper."""
    pod = parse_pod(document({name: listed}))
    assert decode_record("pods", msgspec.json.encode(pod)) == pod


@given(objects(*WORDS))
def test_no_affinity_of_a_pod_stops_the_reader(affinity: dict[str, Any]) -> None:
    """F27, deeper still."""
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        pod = parse_pod(document({"affinity": {kind: affinity}}))
        assert decode_record("pods", msgspec.json.encode(pod)) == pod


@given(objects("spec", "template", *WORDS))
def test_a_daemon_set_is_read_or_refused_with_a_field(spec: dict[str, Any]) -> None:
    """F27: faulty objects; SCH-46: daemons of new nodes."""
    with contextlib.suppress(InvalidObject):
        daemon = parse_daemon_set(document(spec))
        assert decode_record("daemonsets", msgspec.json.encode(daemon)) == daemon


def test_a_daemon_set_brings_its_overhead() -> None:
    """SCH-46: daemons of new nodes."""
    template = {
        "spec": {"containers": [container("100m")], "tolerations": [{"operator": "Exists"}]}
    }
    daemon = parse_daemon_set(document({"template": template}))
    assert daemon.requests == {"cpu": 100, "pods": 1}
    assert daemon.tolerations == (Toleration("", "Exists"),)


def test_a_daemon_set_brings_its_device_claims() -> None:
    """DRA-08: claims that cannot be read leave its other amounts."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "own"}]
    spec = {"containers": [container("100m")], "resourceClaims": claims}
    daemon = parse_daemon_set(document({"template": {"spec": spec}}))
    assert daemon.device_claims == (PodClaim("gpu", template="own"),)
    faulty = {**spec, "resourceClaims": [{"name": "gpu"}]}
    daemon = parse_daemon_set(document({"template": {"spec": faulty}}))
    assert (daemon.device_claims, daemon.requests["cpu"]) == ((), 100)


def test_an_unknown_operator_tolerates_nothing() -> None:
    """SCH-27: ToleratesTaint of core/v1."""
    taint = Taint("team", "NoSchedule", "x")
    assert not Toleration("team", "Near", "x").tolerates(taint)
    assert Toleration("team", "", "x").tolerates(taint)


def test_affinity_terms_take_the_values_of_the_pod_itself() -> None:
    """matchLabelKeys and mismatchLabelKeys, as the API server writes them into the selector."""
    keyed = {"matchLabelKeys": ["ver", "absent"], "mismatchLabelKeys": ["tenant"]}
    selector = {"matchLabels": {"app": "web"}}
    labels = {"app": "web", "ver": "v2", "tenant": "a"}

    def read(by: dict[str, Any]) -> AffinityTerm:
        raw = document(together(labelSelector=by, **keyed))
        (found,) = parse_pod({**raw, "metadata": {**raw["metadata"], "labels": labels}}).affinity
        return found

    term = read(selector)
    own = (Expression("ver", "In", ("v2",)), Expression("tenant", "NotIn", ("a",)))
    assert (term.match_labels, term.expressions) == ({"app": "web"}, own)
    written = {**selector, "matchExpressions": [{"key": "ver", "operator": "In", "values": ["v2"]}]}
    assert read(written) == term, "written already"
