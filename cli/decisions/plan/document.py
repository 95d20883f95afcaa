"""The effect of changed manifests as a JSON document, from which the table and the Markdown are written. Pure."""

from __future__ import annotations

from typing import Any

from cli.decisions.plan.comparison import Effect, Going, Staying
from cli.decisions.plan.course import Taken
from shared.domain.machines.machine import Machine
from shared.simulation.simulate import faults_of
from shared.solver.plan import PlannedMachine

MICRO = 1_000_000


def document_of(effect: Effect) -> dict[str, Any]:
    """Costs in US dollars an hour, times in seconds from now."""
    ours, theirs = effect.with_changes, effect.without
    return {
        "changes": [
            {"object": f"{one.kind}/{one.name}", "new": one.is_new, "fields": list(one.fields)}
            for one in effect.changes
        ],
        "machines": [_going(one) for one in effect.going],
        "staying": [_staying(one) for one in effect.staying],
        "notAnyMore": [_taken(one) for one in effect.not_any_more],
        "launched": [{**_planned(one), "at": round(at, 3)} for at, one in effect.bought],
        "notLaunched": [_planned(one) for one in effect.not_bought],
        "unschedulable": [
            {"pod": pod, "reason": why} for pod, why in sorted(effect.unschedulable.items())
        ],
        "cost": {
            "now": ours.cost_before / MICRO,
            "after": ours.cost_after / MICRO,
            "withoutChanges": theirs.cost_after / MICRO,
            "change": effect.cost_change / MICRO,
        },
        "disrupted": {"machines": len(effect.disrupted), "of": effect.machines},
        "mayDrift": len(effect.may_drift),
        "seconds": round(effect.seconds, 3),
        "unfinished": ours.unfinished,
        "notes": effect.notes,
        "faults": faults_of(effect.faults),
    }


def _going(one: Going) -> dict[str, Any]:
    return {**_taken(one.taken), "drift": one.drift, "anyway": one.anyway}


def _taken(one: Taken) -> dict[str, Any]:
    command = one.command
    price = one.candidate.price_micro_usd_per_hour
    return {
        **_machine(one.candidate.machine),
        "price": None if price is None else price / MICRO,
        "pods": len(one.candidate.pods),
        "reason": command.reason,
        "method": command.method,
        "decision": command.decision,
        "replacements": [_planned(planned) for planned in command.replacements],
        "begins": round(one.begun, 3),
        "ends": round(one.over, 3),
    }


def _staying(one: Staying) -> dict[str, Any]:
    return {**_machine(one.machine), "drift": one.drift, "why": one.why}


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "machine": machine.key,
        "node": machine.node_name,
        "pool": machine.pool_key,
        "instanceType": machine.instance_type,
        "zone": machine.zone,
        "capacityType": machine.capacity_type,
    }


def _planned(planned: PlannedMachine) -> dict[str, Any]:
    return {
        "pool": planned.pool_key,
        "instanceType": planned.instance_type,
        "zone": planned.offering.zone,
        "capacityType": planned.offering.capacity_type,
        "price": planned.offering.price_micro_usd_per_hour / MICRO,
        "pods": len(planned.pods),
    }
