"""A plan that runs out of time contains the pods placed so far, and a verdict for the rest (BAT-07)."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan
from shared.solver.reasons import OUT_OF_TIME
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import make_pod, make_snapshot
from tests.support.planning.plan_checker import check_plan

SIZES = 12
SNAPSHOT = make_snapshot(*(make_pod(f"p{n}", cpu=f"{100 + n}m") for n in range(SIZES)))
"""Each pod is a class of its own."""


def planned(snapshot: Snapshot, looks: int, policy: str = "FewestNodes") -> Plan:
    """The plan whose ``time_is_up`` returns True after so many calls."""
    numbers = count()
    settings = SolverSettings(packing_policy=policy)
    return solve(snapshot, now=0.0, settings=settings, time_is_up=lambda: next(numbers) >= looks)


@pytest.mark.slow
@given(st.integers(0, 3 * SIZES), st.sampled_from(["FewestNodes", "LowestCost"]))
def test_what_is_placed_by_then_is_a_sound_plan(looks: int, policy: str) -> None:
    plan = planned(SNAPSHOT, looks, policy)
    placed = {uid for machine in plan.machines for uid in machine.pods}
    asked = replace(SNAPSHOT, pods=tuple(p for p in SNAPSHOT.pods if p.uid in placed))
    check_plan(replace(plan, unschedulable={}), asked)
    assert placed | plan.unschedulable.keys() == {pod.uid for pod in SNAPSHOT.pods}
    assert len(placed) == min(looks, SIZES)
    assert set(plan.unschedulable.values()) <= {OUT_OF_TIME}


def test_the_largest_pods_come_first() -> None:
    """SCH-30: order of pods."""
    (machine,) = planned(SNAPSHOT, 3).machines
    assert set(machine.pods) == {SNAPSHOT.pods[n].uid for n in (9, 10, 11)}


def test_a_pod_that_was_looked_at_keeps_its_verdict() -> None:
    huge = make_pod("huge", cpu="100000")
    plan = planned(make_snapshot(huge, *SNAPSHOT.pods), 2)
    assert plan.unschedulable[huge.uid] != OUT_OF_TIME
    assert sum(text == OUT_OF_TIME for text in plan.unschedulable.values()) == SIZES - 1
