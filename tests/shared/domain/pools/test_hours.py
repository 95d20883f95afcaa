"""When pools are open."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shared.domain.pools import hours
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.windows import Window
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import make_machine, make_pod, make_pool, make_snapshot

MONDAY_NINE = 4 * 86_400.0 + 9 * 3600
"""Seconds since the epoch, which was a Thursday."""
WORK = Window(schedule="0 8 * * mon-fri", duration_seconds=36_000.0)
EVENING = MONDAY_NINE + 10 * 3600


def pool_with(**changes: Any) -> NodePool:
    return make_pool(hours=(WORK,), **changes)


def test_a_pool_is_open_in_its_windows_and_always_without_one() -> None:
    assert hours.is_open(pool_with(), now=MONDAY_NINE)
    assert not hours.is_open(pool_with(), now=EVENING)
    assert not hours.is_open(pool_with(), now=MONDAY_NINE - 86_400)
    assert hours.is_open(make_pool(), now=EVENING)


def test_a_closed_pool_buys_nothing_and_its_pods_hear_why() -> None:
    snapshot = make_snapshot(make_pod("a"), pools=(pool_with(),))
    closed = solve(hours.at(snapshot, now=EVENING), now=EVENING, settings=SolverSettings())
    assert not closed.machines
    (reason,) = closed.unschedulable.values()
    assert "outside its hours, which begin at 0 8 * * mon-fri (UTC)" in reason
    reopened = hours.at(hours.at(snapshot, now=EVENING), now=MONDAY_NINE)
    assert reopened == snapshot
    assert solve(hours.at(snapshot, now=MONDAY_NINE), now=0, settings=SolverSettings()).machines


def test_machines_go_at_closing_time_only_where_the_pool_asks_for_it() -> None:
    machine = make_machine("default-a")
    going = [machine, replace(machine, name="default-b", uid="b", terminating=True)]

    def named(pool: NodePool, now: float) -> list[str]:
        return [m.name for m in hours.outside_hours(going, [pool], now=now)]

    assert named(pool_with(drains_when_closed=True), EVENING) == ["default-a"]
    assert named(pool_with(drains_when_closed=True), MONDAY_NINE) == []
    assert named(pool_with(), EVENING) == []
