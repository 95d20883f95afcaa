"""What of an outcome is compared between two settings. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shared.simulation.decisions.records import (
    CommandOutcome,
    Outcome,
    PassOutcome,
    ValidationOutcome,
)
from shared.solver.plan import Plan

NOTHING = "nothing"


def outcome_facts(outcome: Outcome) -> dict[str, Any]:
    """Fact -> value. Amounts are US dollars an hour."""
    if isinstance(outcome, Plan):
        return _of_plan(outcome)
    found = _of_command(outcome.command)
    if isinstance(outcome, PassOutcome):
        stay = {key for one in outcome.stay for key in one.machines}
        return {**found, "machines that stay": len(stay)}
    assert isinstance(outcome, ValidationOutcome)
    return {**found, "dropped because": outcome.text} if outcome.text else found


def _of_plan(plan: Plan) -> dict[str, Any]:
    types = Counter(machine.instance_type for machine in plan.machines)
    bound = plan.lower_bound_micro_usd_per_hour
    return {
        "machines": len(plan.machines),
        "types": ", ".join(f"{count} {name}" for name, count in sorted(types.items())) or NOTHING,
        "$ an hour": f"{plan.cost_micro_usd_per_hour / 1e6:.4f}",
        "lower bound": "-" if bound is None else f"{bound / 1e6:.4f}",
        "pods on new machines": sum(len(machine.pods) for machine in plan.machines),
        "pods on existing capacity": sum(map(len, plan.existing.values())),
        "pods without a place": len(plan.unschedulable),
    }


def _of_command(command: CommandOutcome | None) -> dict[str, Any]:
    if command is None:
        return {"method": NOTHING}
    return {
        "method": command.method,
        "machines that go": len(command.candidates),
        "replacements": len(command.replacements),
        "pods that move": command.moved_pods,
        "$ an hour saved": f"{command.saving_micro_usd_per_hour / 1e6:.4f}",
    }
