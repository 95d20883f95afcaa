"""Which consolidation a pool gets (DIS-03): its own word, or the scheduler's setting."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.disruption.methods import (
    CONSOLIDATIONS,
    Inputs,
    delayed,
    inputs_of,
    methods_of,
    of_consolidator,
)
from shared.disruption.global_consolidation import plan
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.methods import multi_node, single_node
from shared.disruption.records import Command
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.domain.pools.nodepools import (
    BY_PACKING,
    GLOBAL,
    KARPENTER,
    WHEN_UNDERUTILIZED,
    Budget,
    NodePool,
)
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import make_pool
from tests.support.planning.disruption import (
    NOW,
    look,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)


def pool(name: str, **changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1,
        "consolidation_policy": WHEN_UNDERUTILIZED,
        "consolidate_after_seconds": 0.0,
        "budgets": (Budget("100%"),),
    }
    return make_pool(name, **{**fields, **changes})


def proposed(setting: str, **consolidators: str) -> dict[str, Command]:
    """Method -> its command, for a pool of two half-empty nodes per name."""
    pools = tuple(pool(name, consolidator=chosen) for name, chosen in consolidators.items())
    running = [make_running(f"{of.name}-{i}", "m5.x008", pool=of) for of in pools for i in (1, 2)]
    pods = [pod for one in running for pod in pods_on(one.node.name, 3)]
    world = make_world(make_cluster(running, *pods, pools=pools))
    found = {}
    for method in methods_of(GENERATIONS[V1], setting, frozenset(), Churn()):
        if method.name in CONSOLIDATIONS and (commands := method.propose(world).commands):
            found[method.name] = commands[0]
    return found


@pytest.mark.parametrize("generation", [V1ALPHA5, V1])
def test_both_consolidators_come_last(generation: str) -> None:
    """DIS-03: order of methods in v1; DIS-05: order of methods in v1alpha5."""
    names = [
        method.name
        for method in methods_of(GENERATIONS[generation], KARPENTER, frozenset(), Churn())
    ]
    assert names[-3:] == [plan.METHOD, multi_node.METHOD, single_node.METHOD]


def test_the_setting_decides_for_pools_that_say_nothing() -> None:
    assert set(proposed(GLOBAL, a="")) == {plan.METHOD}
    assert plan.METHOD not in proposed(KARPENTER, a="")


def test_a_pool_decides_for_itself() -> None:
    """Annotation dovetail.sh/consolidation: neither touches the other's machines."""
    found = proposed(KARPENTER, mine=GLOBAL, other="")
    assert {c.pool.name for c in found[plan.METHOD].candidates} == {"mine"}
    others = (found[name] for name in (multi_node.METHOD, single_node.METHOD) if name in found)
    assert {c.pool.name for command in others for c in command.candidates} == {"other"}


@pytest.mark.parametrize("policy", ["LowestCost", "Balanced", "FewestNodes"])
def test_packed_pools_are_consolidated_globally_unless_something_else_is_said(policy: str) -> None:
    """auto: by the packing policy of the pool, or of the setting for pools without one."""
    of = pool("own", packing=policy)
    kept = pool("kept", packing=policy, consolidator=KARPENTER)
    other = pool("other")
    running = [make_running(one.name, pool=one) for one in (of, kept, other)]
    world = make_world(make_cluster(running, pools=(of, kept, other)))
    world = replace(world, solver=SolverSettings(packing_policy="LowestCost"))
    found = {
        one: {c.pool.name for c in of_consolidator(world, one, BY_PACKING).candidates}
        for one in (GLOBAL, KARPENTER)
    }
    packed = {"own"} if policy != "FewestNodes" else set()
    assert found == {GLOBAL: packed | {"other"}, KARPENTER: {"own", "kept"} - packed}


def test_a_global_command_is_looked_at_twice() -> None:
    """CON-11: the check after the delay."""
    assert delayed(proposed(GLOBAL, a="")[plan.METHOD])


def seen(now: float = NOW, nominated: frozenset[str] = frozenset(), **changes: Any) -> Inputs:
    of = pool("mine", consolidator=GLOBAL)
    running = [make_running(f"n{i}", "m5.x008", pool=of) for i in (1, 2)]
    pods = [pod for one in running for pod in pods_on(one.node.name, 3)]
    snapshot = make_cluster(running, *pods, pools=(of,), **changes)
    candidates, _ = look(snapshot, nominated=nominated)
    world = replace(make_world(snapshot, now=now), candidates=candidates)
    return inputs_of(world, Churn(rest_seconds=7200))


def test_an_unchanged_cluster_looks_the_same() -> None:
    """DIS-27: it is not searched again."""
    assert seen() == seen(now=NOW + 60)


@pytest.mark.parametrize(
    "later",
    [
        {"nominated": frozenset({"n1"})},
        {"generation": 2},
        {"unavailable": frozenset({("on-demand", "m5.x004", "us-west-2a")})},
        {"now": NOW + 7200},
    ],
    ids=["nominated", "changed", "no capacity", "rested"],
)
def test_what_could_change_the_answer_is_seen(later: dict[str, Any]) -> None:
    """DIS-27, also where the mirror stays the same: nominations, capacity and rests end by time."""
    assert seen() != seen(**later)
