"""Limits on attached volumes per node (SCH-91, SCH-92)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.domain.workloads.pods import Pod
from tests.support.planning.builders import (
    make_bound_pod,
    make_node,
    make_pod,
    make_pods,
    make_snapshot,
)
from tests.support.planning.snapshots import plan_for, pods_per_machine
from tests.support.planning.volumes import EBS, make_claim, make_csi_node, make_storage_class


def with_volumes(name: str, *claims: str) -> Pod:
    return make_pod(name, volume_claims=claims)


def waiting_claims(count: int, **changes: Any) -> dict[str, Any]:
    claims = tuple(make_claim(f"data-{i}") for i in range(count))
    return {"claims": claims, "storage_classes": (make_storage_class(),), **changes}


def attaching(count: int, first: int = 0) -> list[Pod]:
    return [with_volumes(f"p{i}", f"data-{i}") for i in range(first, first + count)]


def test_sch_91_a_node_takes_as_many_volumes_as_it_attaches() -> None:
    known = waiting_claims(5, nodes=(make_node(),), csi_nodes=(make_csi_node(ebs=3),))
    plan = plan_for(make_snapshot(*attaching(5), **known))
    assert plan.existing == {"node-1": ("uid-p0", "uid-p1", "uid-p2")}
    assert pods_per_machine(plan) == [2]


def test_sch_91_volumes_of_running_pods_count_once_each() -> None:
    known = waiting_claims(4, nodes=(make_node(),), csi_nodes=(make_csi_node(ebs=3),))
    running = [
        make_bound_pod(name, "node-1", volume_claims=("data-0", "data-0", "unknown"))
        for name in ("one", "two")
    ]
    plan = plan_for(make_snapshot(*running, *attaching(3, 1), **known))
    assert plan.existing == {"node-1": ("uid-p1", "uid-p2")}


def test_sch_91_a_full_node_still_takes_a_pod_whose_volume_it_has() -> None:
    known = waiting_claims(2, nodes=(make_node(),), csi_nodes=(make_csi_node(ebs=1),))
    running = make_bound_pod("one", "node-1", volume_claims=("data-0",))
    pods = (running, with_volumes("same", "data-0"), with_volumes("other", "data-1"))
    plan = plan_for(make_snapshot(*pods, **known))
    assert plan.existing == {"node-1": ("uid-same",)}
    assert [m.pods for m in plan.machines] == [("uid-other",)]


def test_sch_91_a_node_that_is_full_for_one_pod_may_have_the_volume_of_the_next() -> None:
    nodes = (make_node(), make_node("node-2", unschedulable=True))
    known = waiting_claims(2, nodes=nodes, csi_nodes=(make_csi_node(ebs=1),))
    running = [
        make_bound_pod(f"runs-{i}", f"node-{i + 1}", volume_claims=(f"data-{i}",)) for i in (0, 1)
    ]
    pods = (with_volumes("p0", "data-1"), with_volumes("p1", "data-0"))
    plan = plan_for(make_snapshot(*running, *pods, **known))
    assert plan.existing == {"node-1": ("uid-p1",)}


def test_sch_91_a_node_without_room_for_two_volumes_takes_a_pod_with_one() -> None:
    known = waiting_claims(3, nodes=(make_node(),), csi_nodes=(make_csi_node(ebs=1),))
    pods = (with_volumes("p0", "data-0", "data-1"), with_volumes("p1", "data-2"))
    plan = plan_for(make_snapshot(*pods, **known))
    assert plan.existing == {"node-1": ("uid-p1",)}


@pytest.mark.parametrize("csi_node", [make_csi_node("another"), make_csi_node()])
def test_sch_91_an_unknown_node_or_driver_has_no_limit(csi_node: Any) -> None:
    known = waiting_claims(9, nodes=(make_node(),), csi_nodes=(csi_node,))
    if csi_node.name == "node-1":
        known["csi_nodes"] = (replace(csi_node, limits={"efs.csi.aws.com": 1}),)
    plan = plan_for(make_snapshot(*attaching(9), **known))
    assert len(plan.existing["node-1"]) == 9


def test_sch_91_a_limit_without_claims_changes_nothing() -> None:
    pods, nodes = make_pods(30, labels={"app": "web"}), (make_node(),)
    limited = make_snapshot(*pods, nodes=nodes, csi_nodes=(make_csi_node(ebs=0),))
    assert plan_for(limited) == plan_for(make_snapshot(*pods, nodes=nodes))


def test_sch_92_the_driver_of_a_claim_that_waits_is_its_class_s() -> None:
    """The volume counts although it is not attached yet (SCH-91)."""
    known = waiting_claims(1, nodes=(make_node(),), csi_nodes=(make_csi_node(ebs=0),))
    plan = plan_for(make_snapshot(*attaching(1), **known))
    assert plan.existing == {}
    other = (make_storage_class(provisioner=EBS + ".other"),)
    plan = plan_for(make_snapshot(*attaching(1), **{**known, "storage_classes": other}))
    assert plan.existing == {"node-1": ("uid-p0",)}
