"""Room for virtual pods in planning and disruption: it stays, may move, and takes nothing from real pods (GAT-02)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.disruption.folding import fold
from shared.disruption.methods import emptiness, single_node
from shared.domain.machines.machine import INITIALIZED
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.capacity_buffers import CapacityBuffer, PodTemplate
from shared.domain.workloads.pods import Pod
from shared.solver.solve import SolverSettings, solve
from shared.solver.virtual_pods import seated, with_virtual_pods
from tests.support.planning.builders import amounts, make_pod, make_pool
from tests.support.planning.disruption import (
    NOW,
    V1,
    Running,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)

EAGER = make_pool(
    generation_api=V1,
    consolidate_after_seconds=0.0,
    consolidation_policy="WhenEmptyOrUnderutilized",
)


def kept(replicas: int, cpu: str = "1") -> dict[str, Any]:
    """A buffer and its template, for a snapshot."""
    return {
        "buffers": (CapacityBuffer("b", "default", "spare", template="web", replicas=replicas),),
        "pod_templates": (PodTemplate("PodTemplate", "default", "web", make_pod("web", cpu=cpu)),),
    }


def cluster(running: Sequence[Running], *pods: Pod, **changes: Any) -> Snapshot:
    found = make_cluster(list(running), *pods, pools=(EAGER,), **changes)
    return seated(found, SolverSettings(), now=NOW)


def node(name: str, kind: str = "m5.x004", **changes: Any) -> Running:
    return make_running(name, kind, pool=EAGER, **changes)


def homes(snapshot: Snapshot) -> list[str]:
    return sorted(pod.node_name for pod in snapshot.pods if pod.virtual)


def test_an_empty_node_that_holds_a_buffer_is_not_empty() -> None:
    """The node that the buffer does not need goes."""
    snapshot = cluster([node("n1"), node("n2")], **kept(3))
    assert homes(snapshot) == ["n1", "n1", "n1"]
    (command,) = emptiness.propose(make_world(snapshot)).commands
    assert [one.node.name for one in command.candidates] == ["n2"]


def test_without_the_buffer_both_nodes_are_empty() -> None:
    (command,) = emptiness.propose(make_world(cluster([node("n1"), node("n2")]))).commands
    assert len(command.candidates) == 2


def test_consolidation_replaces_a_node_by_a_cheaper_one_that_still_has_the_room() -> None:
    snapshot = cluster([node("n1", "m5.x032")], **kept(3))
    (command,) = single_node.propose(make_world(snapshot)).commands
    (machine,) = command.replacements
    assert machine.requests["cpu"] >= 3000
    assert machine.instance_type == "m5.x004"


def test_consolidation_does_not_use_up_the_room() -> None:
    """The pods of n2 would fit on n1 in the room of the buffer."""
    pods = pods_on("n2", 2, cpu="1500m")
    with_room = make_world(cluster([node("n1"), node("n2")], *pods, **kept(4)))
    assert single_node.propose(with_room).commands == ()
    without = make_world(cluster([node("n1"), node("n2")], *pods))
    assert emptiness.propose(without).commands or single_node.propose(without).commands


def test_virtual_pods_cost_no_disruption_and_no_budget_of_pods_holds_them() -> None:
    snapshot = cluster([node("n1")], **kept(3))
    (candidate,) = make_world(snapshot).candidates
    assert (len(candidate.pods), candidate.blocker, candidate.empty) == (3, "", False)
    assert candidate.cost == make_world(cluster([node("n1")])).candidates[0].cost


def test_a_pod_of_a_gang_that_waits_finds_the_others_in_every_simulation() -> None:
    """SCH-114: pods that a pass folds into one would make the gang look as if it lacked them."""
    running = pods_on("n1", 3, gang="train", gang_size=4)
    again = make_pod("train-new", gang="train", gang_size=4)
    folded = fold(cluster([node("n1"), node("n2")], *running, again)).without({"n2"})
    plan = solve(folded, now=NOW, settings=SolverSettings())
    assert plan.unschedulable == {}


def test_room_on_a_machine_that_starts_is_not_room_yet() -> None:
    young = node("n1", extra=())
    machine = replace(
        young.machine,
        conditions={k: v for k, v in young.machine.conditions.items() if k != INITIALIZED},
    )
    labels = {k: v for k, v in young.node.labels.items() if "initialized" not in k}
    starting = Running(machine, replace(young.node, labels=labels))
    assert homes(cluster([starting], **kept(2))) == ["", ""]


@pytest.mark.slow
@given(
    real=st.lists(st.sampled_from(["250m", "1", "3", "200"]), max_size=6),
    bound=st.integers(0, 4),
    replicas=st.integers(0, 5),
    limit=st.none() | st.integers(2, 24),
)
@settings(max_examples=60, deadline=None)
def test_a_buffer_takes_no_place_from_a_real_pod(
    real: list[str], bound: int, replicas: int, limit: int | None
) -> None:
    """Real pods that find a place without the buffer find one beside it; nodes hold no more than they have."""
    pool = make_pool(limits={} if limit is None else amounts(cpu=str(limit)))
    pods = [make_pod(f"p{i}", cpu=cpu) for i, cpu in enumerate(real)]
    plain = make_cluster([make_running("n1")], *pods, *pods_on("n1", bound), pools=(pool,))
    beside = with_virtual_pods(replace(plain, **kept(replicas)), SolverSettings(), now=NOW)
    alone, both = (solve(one, now=NOW, settings=SolverSettings()) for one in (plain, beside))
    virtual = {pod.uid for pod in beside.pods if pod.virtual}
    assert set(both.unschedulable) - virtual == set(alone.unschedulable)
    for name, uids in alone.existing.items():
        assert set(uids) <= set(both.existing[name])
    whole = seated(replace(plain, **kept(replicas)), SolverSettings(), now=NOW)
    used = sum(pod.requests["cpu"] for pod in whole.pods if pod.node_name == "n1")
    assert used <= 4000
    assert seated(replace(plain, **kept(replicas)), SolverSettings(), now=NOW) == whole
