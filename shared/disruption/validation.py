"""Does a command still make sense after its delay? (CON-11, DIS-31)

Looked at anew against a fresh world: the machines must still be candidates within their budgets, and the simulation
must still say the same. Emptiness keeps the part that is still right; consolidation is dropped whole.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from shared.disruption import emptiness
from shared.disruption.consolidation import eligible
from shared.disruption.records import Candidate, Command, World, within_budgets
from shared.disruption.simulation import simulate

BUDGET, SCHEDULING, CHURN = "budget", "scheduling", "churn"
"""Causes of a ConsolidationRejected event."""


class Verdict(NamedTuple):
    """``command`` None: nothing of it is left, and why."""

    command: Command | None
    cause: str = ""
    text: str = ""


def validate(world: World, command: Command) -> Verdict:
    """The command as it may be carried out now."""
    if command.method == emptiness.METHOD:
        return _emptiness(world, command)
    fresh = _fresh(command, {c.machine.uid: c for c in eligible(world)[0]})
    if fresh is None:
        return Verdict(None, CHURN, "a node is no longer a candidate")
    if len(within_budgets(fresh, world, command.reason)) < len(fresh):
        return Verdict(None, BUDGET, "a budget allows fewer nodes by now")
    outcome = simulate(world, fresh, settle=True)
    if outcome.problem:
        return Verdict(None, SCHEDULING, outcome.problem)
    if len(outcome.machines) != len(command.replacements):
        text = f"{len(outcome.machines)} new machine(s) are needed by now, not {len(command.replacements)}"
        return Verdict(None, SCHEDULING, text)
    for planned, before in zip(outcome.machines, command.replacements, strict=True):
        if not set(before.instance_types) <= set(planned.instance_types):
            return Verdict(None, SCHEDULING, "the instance types that would do have changed")
    return Verdict(replace(command, candidates=fresh, targets=outcome.targets))


def _emptiness(world: World, command: Command) -> Verdict:
    now_empty = {
        c.machine.uid: c
        for c in world.candidates
        if c.empty and not c.blocker and emptiness.time_is_up(c, now=world.now)
    }
    still = [now_empty[c.machine.uid] for c in command.candidates if c.machine.uid in now_empty]
    kept = within_budgets(still, world, command.reason)
    if kept:
        return Verdict(replace(command, candidates=kept))
    if still:
        return Verdict(None, BUDGET, "the budgets allow none by now")
    return Verdict(None, CHURN, "no node is empty any more")


def _fresh(command: Command, current: dict[str, Candidate]) -> tuple[Candidate, ...] | None:
    """The same machines as they are now; None when one is no candidate any more or got other pods."""
    found = []
    for candidate in command.candidates:
        now = current.get(candidate.machine.uid)
        if now is None:
            return None
        found.append(now)
    return tuple(found)
