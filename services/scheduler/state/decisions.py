"""The latest decisions of this scheduler, as documents for ``/status`` and the console. Pure; nothing decides by them.

Amounts are US dollars an hour: ``cost`` is positive for what was bought and negative for what is saved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from shared.concurrency.clock import Clock
from shared.disruption.records import Command, Verdict
from shared.domain.machines.commands import CommandRecord
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan, PlannedMachine

MOST_DECISIONS = 50
MOST_NAMED = 20
"""Machines, and pods that stay pending, that one decision names."""
MOST_MOVES = 200
"""Pods of one plan whose target is named."""


@dataclass
class DecisionLog:
    """Newest last, at most ``MOST_DECISIONS``."""

    clock: Clock
    _latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_DECISIONS))
    _pending: Mapping[str, str] = field(default_factory=dict)
    """Pod -> why it stays pending, of the last plan: a plan that finds only this again is not noted again."""

    def documents(self) -> list[dict[str, Any]]:
        """Newest first."""
        return list(reversed(self._latest))

    def plan(self, plan: Plan, created: Sequence[PlannedMachine], pods: Mapping[str, Pod]) -> None:
        """A plan was carried out. ``pods``: by UID."""
        pending = {pods[uid].key: why for uid, why in plan.unschedulable.items() if uid in pods}
        if not created and not plan.existing and pending == self._pending:
            return
        self._pending = pending
        self._add(plan.id, "plan", plan_document(plan, created, pods, pending))

    def command(self, command: Command, id_: str) -> None:
        """A disruption command begins. ``id_``: of its record."""
        self._add(id_, command.method, command_document(command))

    def dropped(self, command: Command, verdict: Verdict) -> None:
        """A command was right when it was proposed and is not any more."""
        document = command_document(command) | {"text": f"not carried out: {command.text}"}
        document["rejected"] = [{"what": command.text, "why": f"{verdict.cause}: {verdict.text}"}]
        self._add(f"{command.id}-dropped", command.method, document | {"cost": None})

    def rolled_back(self, record: CommandRecord, why: str) -> None:
        """A command that had begun was taken back: nothing was saved."""
        document = {
            "text": f"rolled back: {record.text}",
            "reason": record.reason,
            "pods": 0,
            "machines": [f"- {key}" for key in record.candidates[:MOST_NAMED]],
            "cost": None,
            "bound": None,
            "rejected": [{"what": record.text, "why": why}],
            "moves": {},
        }
        self._add(f"{record.id}-rolled-back", record.method, document)

    def _add(self, id_: str, kind: str, document: dict[str, Any]) -> None:
        self._latest.append({"id": id_, "at": self.clock.now(), "kind": kind, **document})


def plan_document(
    plan: Plan,
    created: Sequence[PlannedMachine],
    pods: Mapping[str, Pod],
    pending: Mapping[str, str],
) -> dict[str, Any]:
    """``bound``: no plan that places the same pods on new machines can cost less; None where it was not computed."""
    bound = plan.lower_bound_micro_usd_per_hour
    return {
        "text": _plan_text(plan, created, len(pending)),
        "pods": sum(len(machine.pods) for machine in created),
        "machines": [planned_text(machine) for machine in created[:MOST_NAMED]],
        "cost": sum(machine.offering.price_micro_usd_per_hour for machine in created) / 1e6,
        "bound": None if bound is None or not created else bound / 1e6,
        "rejected": [
            {"what": f"pod {key}", "why": why} for key, why in islice(pending.items(), MOST_NAMED)
        ],
        "moves": dict(islice(_moves(plan, created, pods), MOST_MOVES)),
    }


def _plan_text(plan: Plan, created: Sequence[PlannedMachine], pending: int) -> str:
    there = sum(map(len, plan.existing.values()))
    parts = [
        f"{_count(len(created), 'machine')} for {_count(sum(len(m.pods) for m in created), 'pod')}"
        if created
        else "",
        f"{_count(there, 'pod')} on capacity that is there or on its way" if there else "",
        f"{_count(pending, 'pod')} can be placed nowhere" if pending else "",
    ]
    return "; ".join(filter(None, parts)) or "nothing to buy"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _moves(
    plan: Plan, created: Sequence[PlannedMachine], pods: Mapping[str, Pod]
) -> Iterable[tuple[str, str]]:
    """(pod, node or machine that it is planned on)."""
    targets = [*plan.existing.items(), *((machine.name, machine.pods) for machine in created)]
    for target, uids in targets:
        yield from ((pods[uid].key, target) for uid in uids if uid in pods)


def planned_text(machine: PlannedMachine) -> str:
    """One line: name, cheapest type, zone, capacity type, price."""
    at = machine.offering
    price = at.price_micro_usd_per_hour / 1e6
    return f"{machine.name} {machine.instance_type} {at.zone} {at.capacity_type} ${price:.4f}/h"


def command_document(command: Command) -> dict[str, Any]:
    """``cost`` is the saving, as a negative amount."""
    return {
        "text": command.text or f"{command.decision} {_count(len(command.candidates), 'machine')}",
        "reason": command.reason,
        "pods": command.moved_pods,
        "machines": [
            *(
                f"- {c.machine.key} {c.machine.instance_type}"
                for c in command.candidates[:MOST_NAMED]
            ),
            *(f"+ {planned_text(one)}" for one in command.replacements[:MOST_NAMED]),
        ],
        "cost": -command.saving_micro_usd_per_hour / 1e6,
        "bound": None,
        "rejected": [],
        "moves": {},
    }
