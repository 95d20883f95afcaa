"""Solving in tests. ``check_plan`` is at home in ``plan_checker``."""

from __future__ import annotations

from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.plan_checker import check_plan as check_plan

QUICK = 60


def plan_for(snapshot: Snapshot, *reschedule: str, **settings: object) -> Plan:
    """``solve`` with default settings, but less effort: most tests need a packing, not the best one."""
    chosen = SolverSettings(**{"effort": QUICK, **settings})  # type: ignore[arg-type]
    return solve(snapshot, now=0.0, settings=chosen, reschedule=frozenset(reschedule))


def pods_per_machine(plan: Plan) -> list[int]:
    """Sizes of the planned machines, largest first."""
    return sorted((len(m.pods) for m in plan.machines), reverse=True)


def requirement_values(machine: PlannedMachine, key: str) -> list[str]:
    """The In values that a planned machine has for a key."""
    return [v for e in machine.requirements if e.key == key for v in e.values]
