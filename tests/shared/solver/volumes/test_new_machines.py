"""Limits on the volumes of machines whose CSINode is not there yet (SCH-91)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan
from tests.shared.solver.volumes.test_attach_limits import attaching, waiting_claims, with_volumes
from tests.support.planning.builders import (
    make_bound_pod,
    make_catalogue,
    make_machine,
    make_node,
    make_snapshot,
    make_type,
)
from tests.support.planning.snapshots import plan_for, pods_per_machine
from tests.support.planning.volumes import EBS, make_csi_node

OURS = {keys.NODE_POOL: "default", keys.INSTANCE_TYPE: "m5.large"}


def limited(*pods: Any, limit: int = 3, **known: Any) -> Snapshot:
    """One type, with room for all of the pods and for so many volumes; 0: no limit is known."""
    kind = make_type("m5.large", 30, 100)
    kind = replace(kind, volume_limits={EBS: limit} if limit else {})
    return make_snapshot(*pods, catalogue=make_catalogue((kind,)), **known)


def sizes(plan: Plan) -> list[int]:
    return sorted(pods_per_machine(plan))


def test_a_new_machine_takes_as_many_volumes_as_its_type_attaches() -> None:
    plan = plan_for(limited(*attaching(7), **waiting_claims(7)))
    assert sizes(plan) == [1, 3, 3]
    assert all("devices/" not in str(machine.requests) for machine in plan.machines)


@pytest.mark.parametrize("limit", [0, 30])
def test_a_running_node_of_the_type_knows_better(limit: int) -> None:
    node = make_node("full", labels={**OURS, keys.INITIALIZED: "true"}, unschedulable=True)
    known = waiting_claims(4, nodes=(node,), csi_nodes=(make_csi_node("full", ebs=2),))
    assert sizes(plan_for(limited(*attaching(4), limit=limit, **known))) == [2, 2]


def test_a_type_of_which_nothing_is_known_is_not_bought_for_that() -> None:
    snapshot = limited(*attaching(7), **waiting_claims(7))
    (kind,) = snapshot.catalogue.types
    other = replace(make_type("m5.xlarge", 60, 200, 900_000), volume_limits={})
    plan = plan_for(replace(snapshot, catalogue=make_catalogue((kind, other))))
    assert sizes(plan) == [1, 3, 3]


def test_without_any_limit_all_go_together() -> None:
    assert sizes(plan_for(limited(*attaching(7), limit=0, **waiting_claims(7)))) == [7]


def test_a_claim_of_several_pods_is_not_counted() -> None:
    pods = [with_volumes(f"p{i}", "data-0") for i in range(5)]
    assert sizes(plan_for(limited(*pods, **waiting_claims(1)))) == [5]


def test_a_pod_with_more_volumes_than_any_type_attaches_is_told_so() -> None:
    pod = with_volumes("greedy", *(f"data-{i}" for i in range(4)))
    plan = plan_for(limited(pod, **waiting_claims(4)))
    assert f"it attaches 4 volumes of {EBS}" in plan.unschedulable["uid-greedy"]


def test_a_launched_machine_and_its_booting_node_have_the_limit_of_their_type() -> None:
    room = {"cpu": 30_000, "memory": 2**40, "pods": 100}
    machine = make_machine(
        node_name="node-1", provider_id="aws:///a/i-1", allocatable=room,
        requirements=(), labels={keys.PROVISIONER_NAME: "default", keys.INSTANCE_TYPE: "m5.large"},
    )  # fmt: skip
    plan = plan_for(limited(*attaching(5), machines=(machine,), **waiting_claims(5)))
    assert len(plan.existing["node-1"]) == 3
    node = make_node(labels=OURS, provider_id="aws:///a/i-1", allocatable=room)
    running = make_bound_pod("runs", "node-1", volume_claims=("data-0",))
    known = waiting_claims(5, nodes=(node,))
    plan = plan_for(limited(running, *attaching(4, 1), machines=(machine,), **known))
    assert len(plan.existing["node-1"]) == 2
    told = {**known, "csi_nodes": (make_csi_node(ebs=4),)}
    plan = plan_for(limited(running, *attaching(4, 1), machines=(machine,), **told))
    assert len(plan.existing["node-1"]) == 3, "its CSINode says it"


def test_a_pod_that_moves_takes_its_volumes_along() -> None:
    """In consolidation: what leaves a node counts where it goes."""
    node = make_node("old", labels={**OURS, keys.INITIALIZED: "true"})
    moving = [make_bound_pod(f"m{i}", "old", volume_claims=(f"data-{i}",)) for i in range(5)]
    snapshot = limited(*moving, **waiting_claims(5, nodes=(replace(node, unschedulable=True),)))
    plan = plan_for(snapshot, *(pod.uid for pod in moving))
    assert sizes(plan) == [2, 3]
