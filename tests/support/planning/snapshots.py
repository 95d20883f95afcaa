"""Solving in tests. ``check_plan`` is at home in ``plan_checker``."""

from __future__ import annotations

import sys

from shared.domain.snapshot import Snapshot
from shared.domain.workloads import by_node
from shared.domain.workloads.by_node import Noted
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings, solve
from shared.solver.topology import bound_pods
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


KEPT = ("_hosts", "_states", "_known", "_kinds", "_sums", "_lists", "_verdicts")
"""Names of what modules keep by node."""


def forget_all() -> None:
    """As in a new process: nothing is known of any node."""
    modules = [one for name, one in sys.modules.items() if name.startswith("shared.")]
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, Noted):
                value._known.clear()
            elif name in KEPT and isinstance(value, dict):
                value.clear()
    by_node._last = ()
    by_node._uids = ((), {})
    bound_pods._counted = ()
