"""Static pools keep their number of machines (GAT-01, NP-13, DRF-07)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from services.scheduler.static_capacity.adjustments import Adjustment, adjustments, names_for
from shared.disruption.methods import emptiness, single_node, static_drift
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import DRIFTED
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import Budget, NodePool
from shared.domain.snapshot import Snapshot
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from shared.solver.pools.static import static_machine
from shared.solver.solve import SolverSettings
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.disruption.test_commands import shown, store
from tests.support.planning.builders import make_node_class, make_pool
from tests.support.planning.disruption import (
    NOW,
    Running,
    conditions,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)

GATE = FeatureGates(static_capacity=True)


def static(replicas: int = 3, **changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1,
        "replicas": replicas,
        "consolidate_after_seconds": 0.0,
    }
    return make_pool(**{**fields, **changes})


def cluster(pool: NodePool, *names: str, pods: Any = ()) -> Snapshot:
    return make_cluster([make_running(name, pool=pool) for name in names], *pods, pools=(pool,))


def needs(snapshot: Snapshot, busy: frozenset[str] = frozenset()) -> list[Adjustment]:
    return adjustments(snapshot, busy_uids=busy, now=NOW)


def test_missing_machines_are_asked_for() -> None:
    assert [a.missing for a in needs(cluster(static(3), "a"))] == [2]
    assert needs(cluster(static(2), "a", "b")) == []


def test_a_limit_of_nodes_counts_those_on_their_way_out() -> None:
    pool = static(3, limits={"nodes": 3})
    found = cluster(pool, "a", "b")
    leaving = replace(found.machines[0], terminating=True)
    assert [a.missing for a in needs(replace(found, machines=(leaving, found.machines[1])))] == [1]


def test_of_too_many_the_idle_and_the_broken_go_first() -> None:
    found = cluster(static(1), "busy", "idle", "down", pods=pods_on("busy", 2))
    down = tuple(replace(n, ready=n.name != "down") for n in found.nodes)
    (adjustment,) = needs(replace(found, nodes=down))
    assert [m.node_name for m in adjustment.surplus] == ["down", "idle"]


def test_one_that_a_command_replaces_is_not_one_too_many() -> None:
    """DRF-07: for a while there are the old and the new."""
    found = cluster(static(1), "old", "new")
    assert needs(found, frozenset({found.machines[0].uid})) == []


def test_names_follow_from_what_there_is() -> None:
    pool = static(3)
    machines = cluster(pool, "a").machines
    assert names_for(pool, machines, 2) == names_for(pool, machines, 2)
    assert len({*names_for(pool, machines, 2), *names_for(pool, (), 2)}) == 4


def test_a_machine_without_pods_asks_for_nothing() -> None:
    pool = static()
    planned = static_machine(cluster(pool), pool, SolverSettings())
    assert not isinstance(planned, str)
    assert (planned.pods, planned.requests) == ((), {})
    assert planned.instance_types


def test_a_pool_that_no_type_suits_says_so() -> None:
    pool = static(requirements=())
    snapshot = replace(cluster(pool), node_classes=())
    assert isinstance(static_machine(snapshot, pool, SolverSettings()), str)


def test_static_machines_are_neither_empty_nor_underutilized() -> None:
    pool = static(1)
    world = make_world(cluster(pool, "a"))
    assert not emptiness.propose(world).commands
    assert not single_node.propose(world).commands


def drifted(pool: NodePool, name: str) -> Running:
    found = make_running(name, pool=pool)
    both = {**found.machine.conditions, **conditions(DRIFTED)}
    return found._replace(machine=replace(found.machine, conditions=both))


def test_a_drifted_static_machine_is_replaced_one_for_one() -> None:
    """DRF-07: although it has no pods."""
    pool = static(1, budgets=(Budget("1"),))
    world = make_world(make_cluster([drifted(pool, "a")], pools=(pool,)), gates=GATE)
    (command,) = static_drift.propose(world).commands
    assert len(command.replacements) == 1
    assert command.replacements[0].requests == {}


def test_without_room_for_another_node_it_stays() -> None:
    pool = static(1, limits={"nodes": 1})
    world = make_world(make_cluster([drifted(pool, "a")], pools=(pool,)), gates=GATE)
    proposal = static_drift.propose(world)
    assert not proposal.commands
    assert "limit of nodes" in proposal.rejections[0].text


def test_static_drift_needs_its_gate() -> None:
    pool = static(1)
    world = make_world(make_cluster([drifted(pool, "a")], pools=(pool,)))
    assert not static_drift.propose(world).commands


async def test_replicas_become_claims(scheduler: Scheduler, kube: Kube) -> None:
    """And a second step, before the mirror shows them, makes no more."""
    pool = static(2)
    scheduler.disruption.settings = scheduler.disruption.settings.model_copy(
        update={"feature_gates": GATE}
    )
    await scheduler.show(nodepools=[pool], nodeclasses=[make_node_class(generation_api=V1)])
    await scheduler.disruption.step()
    await scheduler.disruption.step()
    assert len((await kube.list(NODE_CLAIMS)).items) == 2


async def test_a_machine_that_was_replaced_a_moment_ago_is_not_one_too_many(
    scheduler: Scheduler, kube: Kube
) -> None:
    """features 413: the mirror showed old and new, and the new one went as the one that was idle."""
    pool = static(1)
    scheduler.disruption.settings = scheduler.disruption.settings.model_copy(
        update={"feature_gates": GATE}
    )
    old, new = (make_running(name, pool=pool) for name in ("old", "new"))
    for one in (old, new):
        await store(kube, one)
    await scheduler.show(nodepools=[pool], nodeclasses=[make_node_class(generation_api=V1)])
    known = await shown(scheduler, kube)
    await scheduler.disruption.actions.delete(known[old.machine.name])
    await scheduler.disruption.step()
    left = [raw["metadata"] for raw in (await kube.list(NODE_CLAIMS)).items]
    assert [meta["name"] for meta in left if not meta.get("deletionTimestamp")] == [
        new.machine.name
    ]
