"""How many machines may be disrupted at once and per hour, and when none may (DIS-22..26)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.disruption.budgets import REASONS, allowed_now, by_budget
from shared.disruption.records import EXPIRED, REBALANCE
from shared.domain.machines.machine import INSTANCE_TERMINATING, REGISTERED
from shared.domain.pools.budgets import UNLIMITED
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import (
    DRAIN,
    DRIFTED,
    EMPTY,
    UNDERUTILIZED,
    Budget,
    NodePool,
)
from tests.support.planning.builders import make_pool
from tests.support.planning.disruption import NOW, Running, conditions, make_cluster, make_running

KEY = "Provisioner/default"


def allowed(
    pool: NodePool, running: list[Running], busy: Any = frozenset(), **how: Any
) -> dict[str, int]:
    nodes = {one.node.name: one.node for one in running}
    machines = [one.machine for one in running]
    found = allowed_now([pool], machines, nodes, busy, now=NOW, **how)
    return {reason: found[KEY, reason] for reason in REASONS}


def ten(pool: NodePool) -> list[Running]:
    return [make_running(f"n{i}", pool=pool) for i in range(10)]


def test_without_budgets_there_is_no_limit() -> None:
    assert set(allowed(make_pool(), ten(make_pool())).values()) == {UNLIMITED}


def test_a_budget_counts_for_its_reasons_only() -> None:
    pool = make_pool(budgets=(Budget("3", reasons=(DRIFTED,)), Budget("50%")))
    others = {EMPTY: 5, UNDERUTILIZED: 5, EXPIRED: 5, REBALANCE: 5}
    assert allowed(pool, ten(pool)) == {**others, DRIFTED: 3}


def test_machines_that_are_down_or_on_their_way_out_use_the_budget_up() -> None:
    """Which nodes count for budgets (DIS-24)."""
    pool = make_pool(budgets=(Budget("5"),))
    running = ten(pool)
    running[0] = running[0]._replace(machine=replace(running[0].machine, terminating=True))
    running[1] = running[1]._replace(node=replace(running[1].node, ready=False))
    assert allowed(pool, running, frozenset({running[2].machine.uid}))[EMPTY] == 2


def test_machines_that_are_not_initialised_or_nearly_gone_do_not_count() -> None:
    """Such machines count neither as machines nor as disrupted ones (DIS-24)."""
    pool = make_pool(budgets=(Budget("50%"),))
    young = make_running("young", pool=pool)
    young = young._replace(machine=replace(young.machine, conditions=conditions(REGISTERED)))
    gone = make_running("gone", pool=pool, extra=(INSTANCE_TERMINATING,), terminating=True)
    assert allowed(pool, [*ten(pool), young, gone])[EMPTY] == 5


def test_the_kill_switch_stops_a_pool_or_all() -> None:
    pool = make_pool(disruption_off=True)
    assert set(allowed(pool, ten(pool)).values()) == {0}
    assert set(allowed(make_pool(), ten(make_pool()), off=True).values()) == {0}


def test_a_rate_says_how_many_in_an_hour() -> None:
    pool = make_pool(most_disruptions_per_hour=4)
    assert allowed(pool, ten(pool), spent={KEY: 3})[DRIFTED] == 1
    assert allowed(pool, ten(pool), spent={KEY: 9})[DRIFTED] == 0


def test_machines_in_running_commands_use_the_rate_up_until_they_are_counted() -> None:
    pool = make_pool(most_disruptions_per_hour=4)
    running = ten(pool)
    running[0] = running[0]._replace(machine=replace(running[0].machine, terminating=True))
    busy = frozenset(one.machine.uid for one in running[:3])
    assert allowed(pool, running, busy, spent={KEY: 1})[DRIFTED] == 1


@given(st.integers(0, 40), st.integers(0, 100), st.integers(0, 40))
def test_never_more_than_the_budget_less_what_is_under_way(
    total: int, percent: int, busy: int
) -> None:
    """Percentages are rounded up; the result is never below zero (DIS-22)."""
    pool = make_pool(budgets=(Budget(f"{percent}%"),))
    running = [make_running(f"n{i}", pool=pool) for i in range(total)]
    held = frozenset(one.machine.uid for one in running[:busy])
    size = -(-total * percent // 100)
    assert allowed(pool, running, held)[EMPTY] == max(0, size - min(busy, total))


def test_what_a_budget_allows_is_told_whoever_is_going_already() -> None:
    """DIS-25: a node on its way out uses the budget up and is no news of it; without a budget as many may go as there
    are."""
    one, none, free = (
        make_pool(name, budgets=budgets)
        for name, budgets in (("one", (Budget("1"),)), ("none", (Budget("0"),)), ("free", ()))
    )
    running = [
        make_running(f"{pool.name}-{i}", pool=pool, terminating=i == 0)
        for pool in (one, none, free)
        for i in range(2)
    ]
    snapshot = make_cluster(running, pools=(one, none, free))
    nodes = {node.name: node for node in snapshot.nodes}
    found = by_budget(snapshot.pools, snapshot.machines, nodes, now=NOW)
    said = {pool.name: found[pool.key, DRIFTED] for pool in (one, none, free)}
    assert {name: (a.most, a.blocks) for name, a in said.items()} == {
        "one": (1, False), "none": (0, True), "free": (2, False),
    }  # fmt: skip
    empty = by_budget(snapshot.pools, (), {}, now=NOW)
    assert not any(allowance.blocks for allowance in empty.values()), "of no nodes none is held"


def test_told_are_only_reasons_for_which_a_pool_disrupts() -> None:
    """DIS-25, DIS-60: a NodePool's machines expire whatever its budgets say; no event says else."""
    karpenters = {EMPTY, DRIFTED, UNDERUTILIZED}
    old = make_pool("old", budgets=(Budget("0"),))
    new = make_pool("new", budgets=(Budget("0"),), generation_api=V1)
    patient = make_pool("patient", budgets=(Budget("0"),), generation_api=V1, rebalance=DRAIN)
    pools = (old, new, patient)
    snapshot = make_cluster([make_running(pool.name, pool=pool) for pool in pools], pools=pools)
    found = by_budget(
        pools, snapshot.machines, {node.name: node for node in snapshot.nodes}, now=NOW
    )
    told = {
        pool.name: {
            reason for (key, reason), one in found.items() if key == pool.key and one.blocks
        }
        for pool in pools
    }
    assert told == {
        "old": {*karpenters, EXPIRED}, "new": karpenters, "patient": {*karpenters, REBALANCE},
    }  # fmt: skip
