"""How many pods a gang has, as PodGroups and Workloads say (SCH-114)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.api.core.gangs import parse_pod_group, parse_scheduling_group, parse_workload
from shared.api.core.pods import parse_pod
from shared.domain.workloads.gang_sizes import GangSizes, with_sizes
from shared.simulation.inputs import read_inputs
from shared.solver.reasons import gang_incomplete
from tests.support.planning.builders import make_catalogue, make_pod, make_snapshot
from tests.support.planning.snapshots import plan_for

META = {"name": "train", "namespace": "team"}


def pod_group(least: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": META,
        "spec": {"minMember": least},
    }


def workload(*groups: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": META,
        "spec": {"podGroups": list(groups)},
    }


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": "1"}}}
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": name,
        "labels": labels or {},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def test_a_pod_group_says_its_least_number() -> None:
    sizes = parse_pod_group(pod_group(3)).record
    assert sizes == GangSizes("PodGroup", "team", "train", {"train": 3})
    assert sizes.key == "PodGroup/team/train"


def test_a_workload_says_it_for_each_group_with_the_policy() -> None:
    raw = workload(
        {"name": "workers", "policy": {"gang": {"minCount": 4}}},
        {"name": "viewer", "policy": {"basic": {}}},
    )
    assert parse_workload(raw).record == GangSizes(
        "Workload", "team", "train", {"Workload/train/workers": 4}, ("Workload/train/viewer",)
    )


GROUP = "PodGroup.scheduling.k8s.io/train"


def scheduling_group(policy: dict[str, Any], *topology: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": META,
        "spec": {
            "schedulingPolicy": policy,
            "schedulingConstraints": {"topology": list(topology)},
        },
    }


def test_a_pod_group_of_kubernetes_says_number_and_topology() -> None:
    raw = scheduling_group({"gang": {"minCount": 4}}, {"key": "topology.kubernetes.io/zone"})
    record = parse_scheduling_group(raw).record
    assert record is not None
    assert (record.sizes, record.topology) == ({GROUP: 4}, "topology.kubernetes.io/zone")
    named = parse_pod(pod("a", schedulingGroup={"podGroupName": "train"}))
    assert named.gang == GROUP
    (told,) = with_sizes([named], [record])
    assert (told.gang_size, told.gang_topology) == (4, "topology.kubernetes.io/zone")
    (fault,) = parse_scheduling_group(scheduling_group({"gang": {"minCount": "4"}})).faults
    assert fault.path == ("spec.schedulingPolicy.gang.minCount",)


def test_pods_of_a_group_without_the_policy_are_placed_one_by_one() -> None:
    """Also those of Kubernetes 1.35: the policy ``basic`` makes no gang."""
    record = parse_scheduling_group(scheduling_group({"basic": {}})).record
    old = parse_workload(workload({"name": "viewer", "policy": {"basic": {}}})).record
    assert record is not None
    assert old is not None
    pods = [
        parse_pod(pod("a", schedulingGroup={"podGroupName": "train"})),
        parse_pod(pod("b", workloadRef={"name": "train", "podGroup": "viewer"})),
    ]
    assert [one.gang for one in with_sizes(pods, [record, old])] == ["", ""]


def test_simulate_reads_the_groups_of_both_apis() -> None:
    """The same kind in two API groups; a pod of Kubernetes' group waits for the others."""
    group = scheduling_group({"gang": {"minCount": 3}})
    found = read_inputs(
        [group, pod("a", schedulingGroup={"podGroupName": "train"})], make_catalogue, 100
    )
    assert found.faults == ()
    assert [one.gang_size for one in found.snapshot.pods] == [3]


@pytest.mark.parametrize("least", ["3", -1, True, 5001])
def test_a_wrong_number_is_a_fault_that_names_its_field(least: Any) -> None:
    (fault,) = parse_pod_group(pod_group(least)).faults
    assert (fault.path, "from 0 to 5000" in fault.message) == (("spec.minMember",), True)
    group = {"name": "workers", "policy": {"gang": {"minCount": least}}}
    (fault,) = parse_workload(workload(group)).faults
    assert fault.path == ("spec.podGroups[0].policy.gang.minCount",)


def test_a_pod_of_a_workload_is_in_the_gang_of_its_group_and_replica() -> None:
    named = {"name": "train", "podGroup": "workers"}
    assert parse_pod(pod("a", workloadRef=named)).gang == "Workload/train/workers"
    replica = {**named, "podGroupReplicaKey": "2"}
    assert parse_pod(pod("a", workloadRef=replica)).gang == "Workload/train/workers/2"
    assert parse_pod(pod("a", workloadRef={"name": "train"})).gang == ""


def test_sizes_reach_the_pods_of_their_namespace_that_say_none() -> None:
    sizes = [GangSizes("PodGroup", "team", "train", {"train": 3})]
    member = make_pod("a", namespace="team", gang="train")
    told, own, elsewhere = with_sizes(
        [member, replace(member, gang_size=5), replace(member, namespace="other")], sizes
    )
    assert (told.gang_size, own.gang_size, elsewhere.gang_size) == (3, 5, 0)
    replica = replace(member, gang="Workload/train/workers/1")
    described = [GangSizes("Workload", "team", "train", {"Workload/train/workers": 2})]
    assert [one.gang_size for one in with_sizes([replica], described)] == [2]


def test_simulate_waits_for_all_of_a_pod_group() -> None:
    """Two of three pods get nothing; the third brings machines for all."""
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    base = make_snapshot()

    def planned(number: int) -> Any:
        pods = [pod(f"train-{n}", labels) for n in range(number)]
        found = read_inputs([pod_group(3), *pods], make_catalogue, 100)
        assert found.faults == ()
        given = replace(found.snapshot, pools=base.pools, node_classes=base.node_classes)
        return plan_for(replace(given, catalogue=base.catalogue))

    assert planned(2).machines == ()
    assert set(planned(2).unschedulable.values()) == {gang_incomplete("team/train", 1, 3)}
    assert sum(len(one.pods) for one in planned(3).machines) == 3
