"""One recorded decision as a document for people and programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from shared.concurrency.clock import rfc3339
from shared.simulation.decisions.records import (
    CommandOutcome,
    DecisionRecord,
    Outcome,
    PassOutcome,
    PassQuestion,
    PlanQuestion,
    Stay,
    decode_outcome,
)
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings


def decision_document(record: DecisionRecord) -> dict[str, Any]:
    """All about one decision. Amounts are US dollars an hour. Raises msgspec.ValidationError for another format."""
    outcome = decode_outcome(record.kind, record.outcome)
    stay = outcome.stay if isinstance(outcome, PassOutcome) else ()
    return {
        "id": record.id,
        "kind": record.kind,
        "text": record.text,
        "reason": record.reason,
        "at": rfc3339(record.at),
        "seconds": round(record.seconds, 6),
        "epoch": record.epoch,
        "cluster": record.cluster,
        "shadow": record.shadow,
        "version": record.versions.text(),
        "python": record.versions.python,
        "packages": record.versions.packages,
        "cost": record.cost,
        "bound": record.bound,
        "pods": record.pods,
        "machines": list(_machines(outcome)),
        "created": list(record.created),
        "rejected": [{"what": what, "why": why} for what, why in record.rejected],
        "stay": [_stay(one) for one in sorted(stay, key=lambda one: -len(one.machines))],
        "settings": _settings(record),
        "input": {
            "digest": record.input.digest,
            "generation": record.input.generation,
            "catalogue": record.input.catalogue,
            "series": record.input.series,
            "position": record.input.position,
        },
        "outcome": record.outcome_digest,
        "timedOut": record.timed_out,
    }


def _machines(outcome: Outcome) -> Iterator[str]:
    if isinstance(outcome, Plan):
        yield from (f"+ {planned_line(one)}" for one in outcome.machines)
        return
    command: CommandOutcome | None = outcome.command
    if command is not None:
        yield from (f"- {key}" for key in command.candidates)
        yield from (f"+ {planned_line(one)}" for one in command.replacements)


def planned_line(machine: PlannedMachine) -> str:
    """Name, cheapest type, zone, capacity type, price, pods."""
    at = machine.offering
    price = at.price_micro_usd_per_hour / 1e6
    where = f"{machine.instance_type} {at.zone} {at.capacity_type}"
    return f"{machine.name} {where} ${price:.4f}/h, {len(machine.pods)} pod(s)"


def _stay(one: Stay) -> dict[str, Any]:
    return {
        "method": one.method,
        "text": one.text,
        "pod": one.pod,
        "count": len(one.machines),
        "machines": list(one.machines),
    }


def _settings(record: DecisionRecord) -> Mapping[str, Any]:
    question = record.question
    if isinstance(question, PlanQuestion):
        return dict(_changed(question.settings))
    world = question if isinstance(question, PassQuestion) else question.world
    more = {"consolidation": world.consolidation, "generation": world.generation, "off": world.off}
    return {**dict(_changed(world.settings)), **more}


def _changed(settings: SolverSettings) -> Iterable[tuple[str, Any]]:
    """The policies, and what else is not as usual."""
    usual = msgspec.to_builtins(SolverSettings())
    for name, value in msgspec.to_builtins(settings).items():
        if name == "packing_policy" or value != usual[name]:
            yield name, value
