"""A pool's minimum and headroom hold its machines, whichever method would take them away."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.disruption.global_consolidation import plan as global_plan
from shared.disruption.keeping import keeping
from shared.disruption.methods import drift, emptiness, multi_node, single_node
from shared.disruption.records import World
from shared.disruption.validation import validate
from shared.domain.machines.machine import DRIFTED
from shared.domain.pools.generations import V1
from shared.domain.pools.kept_capacity import lacking
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, NodePool
from shared.domain.pools.windows import KeptCapacity, Window
from tests.support.planning.builders import amounts, make_pool
from tests.support.planning.disruption import (
    NOW,
    conditions,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)


def kept(percent: int = 0, **resources: Any) -> tuple[KeptCapacity, ...]:
    return (KeptCapacity(amounts=amounts(**resources), percent=percent),)


def pool_of(**changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1,
        "consolidation_policy": WHEN_UNDERUTILIZED,
        "consolidate_after_seconds": 0.0,
    }
    return make_pool(**{**fields, **changes})


def world_of(pool: NodePool, *names: str, pods: Any = ()) -> World:
    """Nodes of 4 CPU and 16Gi."""
    return make_world(
        make_cluster([make_running(n, pool=pool) for n in names], *pods, pools=(pool,))
    )


def emptied(world: World) -> int:
    commands = emptiness.propose(world).commands
    return sum(len(command.candidates) for command in commands)


def test_empty_machines_go_down_to_the_minimum_of_nodes() -> None:
    world = world_of(pool_of(minimum=kept(nodes="2")), "a", "b", "c", "d")
    proposal = emptiness.propose(world)
    (command,) = proposal.commands
    assert len(command.candidates) == 2
    assert "short of 1 node" in proposal.rejections[0].text
    assert validate(world, command).command == command


def test_a_minimum_of_cpu_counts_capacity_as_limits_do() -> None:
    assert emptied(world_of(pool_of(minimum=kept(cpu="7")), "a", "b", "c")) == 1
    assert emptied(world_of(pool_of(minimum=kept(cpu="8")), "a", "b", "c")) == 1
    assert emptied(world_of(pool_of(minimum=kept(cpu="4")), "a", "b", "c")) == 2


def test_headroom_counts_what_pods_leave_free() -> None:
    """3.5 of 4 cores are taken on one node: two more keep 5 free."""
    names, pods = ("busy", "x", "y", "z"), pods_on("busy", 7)
    assert emptied(world_of(pool_of(headroom=kept(cpu="5")), *names, pods=pods)) == 1
    assert emptied(world_of(pool_of(headroom=kept(percent=100)), *names, pods=pods)) == 2
    assert emptied(world_of(pool_of(headroom=kept(percent=10)), *names, pods=pods)) == 3


def test_consolidation_moves_no_pods_off_a_machine_that_the_minimum_needs() -> None:
    pods = (*pods_on("a", 1), *pods_on("b", 1))
    free = world_of(pool_of(), "a", "b", pods=pods)
    held = world_of(pool_of(minimum=kept(nodes="2", cpu="8")), "a", "b", pods=pods)
    for method in (multi_node, single_node, global_plan):
        assert method.propose(free).commands, method
        assert not method.propose(held).commands, method


def test_a_command_is_dropped_when_the_minimum_has_risen_meanwhile() -> None:
    pods = (*pods_on("a", 1), *pods_on("b", 1))
    world = world_of(pool_of(), "a", "b", pods=pods)
    raised = keeping(
        replace(world.snapshot, pools=(pool_of(minimum=kept(nodes="2")),)), frozenset(), now=NOW
    )
    for method in (multi_node, single_node, global_plan):
        (command,) = method.propose(world).commands[:1]
        verdict = validate(replace(world, keeping=raised), command)
        assert verdict.command is None or len(verdict.command.replacements) == 2


def test_a_drifted_machine_without_pods_gets_a_replacement_where_the_minimum_needs_it() -> None:
    pool = pool_of(minimum=kept(nodes="1"))
    old = make_running("a", pool=pool)
    drifted = replace(old.machine, conditions={**old.machine.conditions, **conditions(DRIFTED)})
    world = make_world(make_cluster([old._replace(machine=drifted)], pools=(pool,)))
    (command,) = drift.propose(world).commands
    assert len(command.replacements) == 1
    assert command.replacements[0].name != old.machine.name


def test_what_a_command_takes_away_counts_no_more() -> None:
    pool = pool_of(minimum=kept(nodes="2"))
    snapshot = world_of(pool, "a", "b", "c").snapshot
    known = keeping(snapshot, {snapshot.machines[0].uid}, now=NOW)
    assert not lacking(pool, known.holdings[pool.key], now=NOW)
    known = keeping(snapshot, {m.uid for m in snapshot.machines[:2]}, now=NOW)
    assert lacking(pool, known.holdings[pool.key], now=NOW).nodes == 1


def test_a_schedule_says_when_the_minimum_holds() -> None:
    """At NOW, Monday 13:46 UTC."""
    entry = KeptCapacity(amounts={"nodes": 3}, schedule="0 13 * * mon", duration_seconds=3600.0)
    assert emptied(world_of(pool_of(minimum=(entry,)), "a", "b", "c")) == 0
    later = replace(entry, schedule="0 14 * * mon")
    assert emptied(world_of(pool_of(minimum=(later,)), "a", "b", "c")) == 3
    both = (later, KeptCapacity(amounts={"nodes": 1}))
    assert emptied(world_of(pool_of(minimum=both), "a", "b", "c")) == 2


def test_a_closed_pool_keeps_nothing() -> None:
    pool = pool_of(minimum=kept(nodes="3"), hours=(Window(),), closed="it is outside its hours")
    assert emptied(world_of(pool, "a", "b", "c")) == 3


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.integers(0, 6), cpu=st.integers(0, 24), free=st.integers(0, 24),
    percent=st.integers(0, 100), sizes=st.lists(st.sampled_from(["m5.x002", "m5.x004", "m5.x008"]), max_size=6),
    busy=st.integers(0, 6),
)  # fmt: skip
def test_no_method_ever_takes_what_is_kept(
    nodes: int, cpu: int, free: int, percent: int, sizes: list[str], busy: int
) -> None:
    """Whatever a command does, the pool has afterwards what it keeps, or no method proposes one."""
    minimum = kept(nodes=str(nodes), cpu=str(cpu))
    pool = pool_of(minimum=minimum, headroom=kept(percent, cpu=str(free)))
    running = [make_running(f"n{i}", kind=kind, pool=pool) for i, kind in enumerate(sizes)]
    pods = [pod for i in range(min(busy, len(sizes))) for pod in pods_on(f"n{i}", 2)]
    world = make_world(make_cluster(running, *pods, pools=(pool,)))
    for method in (emptiness, multi_node, single_node, global_plan):
        for command in method.propose(world).commands:
            assert not world.keeping.short(command.candidates, command.replacements)
