"""The latest decisions of this scheduler, as documents for ``/status`` and the console. Pure; nothing decides by them.

Amounts are US dollars an hour: ``cost`` is positive for what was bought and negative for what is saved.
``comparable``: ``POST /explain`` knows for a while what the decision would have cost by each packing policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, starmap
from typing import Any, NamedTuple

from shared.concurrency.clock import Clock
from shared.disruption.records import Command, Verdict
from shared.domain.machines.commands import CommandRecord
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import OfferingKey, Snapshot
from shared.domain.workloads.by_node import by_uid
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan, PlannedMachine

MOST_DECISIONS = 50
MOST_NAMED = 20
"""Machines, and pods that stay pending, that one decision names."""
MOST_MOVES = 200
"""Pods of one plan whose target is named."""
STATIC = "static capacity"
KEPT = "kept capacity"
NO_CAPACITY = "left out: EC2 had no capacity for it a short time ago"
NOT_CREATED = (
    "planned, but not created: launches for these pods are held back, the pods need it no more, or the API server "
    "refused it; the events of the pool say which"
)


class Rejected(NamedTuple):
    """What a decision did not do, and why."""

    what: str
    why: str

    def document(self) -> dict[str, str]:
        """As ``/status`` has it."""
        return self._asdict()


@dataclass
class DecisionLog:
    """Newest last, at most ``MOST_DECISIONS``."""

    clock: Clock
    _latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_DECISIONS))
    _refused: tuple[Rejected, ...] = ()
    """Pods and machines that the last plan left without a place or an instance: a plan that finds only this again is
    not noted again."""

    def documents(self) -> list[dict[str, Any]]:
        """Newest first."""
        return list(reversed(self._latest))

    def plan(self, plan: Plan, created: Sequence[PlannedMachine], snapshot: Snapshot) -> None:
        """A plan was carried out. ``snapshot``: its input."""
        refused = _refused(plan, created, by_uid(snapshot.pods))
        if not created and not plan.existing and refused == self._refused:
            return
        self._refused = refused
        document, rejected = plan_decision(plan, created, snapshot)
        document["rejected"] = [one.document() for one in rejected]
        self._add(plan.id, "plan", document)

    def command(self, command: Command, id_: str, rejected: Sequence[Rejected] = ()) -> None:
        """A disruption command begins. ``id_``: of its record; ``rejected``: what its pass decided against."""
        document = command_document(command)
        document["rejected"] = [one.document() for one in rejected[:MOST_NAMED]]
        self._add(id_, command.method, document)

    def expired(self, machine: Machine) -> None:
        """A machine was deleted because of its age."""
        text = f"delete node {machine.node_name or machine.name}: it passed its maximum age"
        document = _bare(text, [_gone_text(machine)]) | {"cost": _saved([machine])}
        self._add(f"{machine.uid}-expired", "expiration", document)

    def closed(self, machine: Machine) -> None:
        """A machine was deleted because its pool closed."""
        text = f"delete node {machine.node_name or machine.name}: its pool is outside its hours"
        document = _bare(text, [_gone_text(machine)]) | {"cost": _saved([machine])}
        self._add(f"{machine.uid}-closed", "hours", document)

    def kept_filled(self, pool: NodePool, created: Sequence[PlannedMachine], short: str) -> None:
        """A pool got these machines for its minimum and headroom. ``short``: what it lacked."""
        text = (
            f"{_count(len(created), 'machine')} for what {pool.name} keeps: it was short of {short}"
        )
        self._created(f"kept/{created[0].name}" if created else "", KEPT, text, created)

    def static_filled(self, pool: NodePool, created: Sequence[PlannedMachine]) -> None:
        """A static pool got these machines."""
        text = f"{_count(len(created), 'machine')} more for the static pool {pool.name}"
        self._created(f"static/{created[0].name}" if created else "", STATIC, text, created)

    def _created(self, id_: str, kind: str, text: str, created: Sequence[PlannedMachine]) -> None:
        if created:
            cost = sum(machine.offering.price_micro_usd_per_hour for machine in created)
            machines = [f"+ {planned_text(one)}" for one in created]
            self._add(id_, kind, _bare(text, machines) | {"cost": cost / 1e6})

    def static_shrunk(self, pool: NodePool, deleted: Sequence[Machine]) -> None:
        """A static pool lost these machines, which were too many."""
        if not deleted:
            return
        text = f"delete {_count(len(deleted), 'machine')} too many of the static pool {pool.name}"
        document = _bare(text, [_gone_text(one) for one in deleted]) | {"cost": _saved(deleted)}
        self._add(f"static/{deleted[0].uid}", STATIC, document)

    def dropped(self, command: Command, verdict: Verdict) -> None:
        """A command was right when it was proposed and is not any more."""
        id_, document = dropped_document(command, verdict)
        self._add(id_, command.method, document)

    def rolled_back(self, record: CommandRecord, why: str) -> None:
        """A command that had begun was taken back: nothing was saved."""
        document = _bare(f"rolled back: {record.text}", [f"- {key}" for key in record.candidates])
        document |= {"reason": record.reason, "rejected": [Rejected(record.text, why).document()]}
        self._add(f"{record.id}-rolled-back", record.method, document)

    def _add(self, id_: str, kind: str, document: dict[str, Any]) -> None:
        self._latest.append({"id": id_, "at": self.clock.now(), "kind": kind, **document})


def _bare(text: str, machines: Sequence[str]) -> dict[str, Any]:
    """A decision that moves no pods and has no price."""
    return {
        "text": text,
        "pods": 0,
        "machines": list(machines[:MOST_NAMED]),
        "cost": None,
        "bound": None,
        "rejected": [],
        "moves": {},
        "comparable": False,
    }


def _gone_text(machine: Machine) -> str:
    return f"- {machine.key} {machine.instance_type}"


def _saved(machines: Iterable[Machine]) -> float | None:
    """US dollars an hour as a negative amount; None when a price is not known."""
    prices = [machine.noted_price for machine in machines]
    known = [price for price in prices if price is not None]
    return -sum(known) / 1e6 if len(known) == len(prices) else None


def _machines_not_created(plan: Plan, created: Sequence[PlannedMachine]) -> Iterable[Rejected]:
    made = {machine.name for machine in created}
    missing = (machine for machine in plan.machines if machine.name not in made)
    return (Rejected(planned_text(one), NOT_CREATED) for one in missing)


def _pod_refused(key: str, why: str) -> Rejected:
    return Rejected(f"pod {key}", why)


def _offerings_left_out(unavailable: Iterable[OfferingKey]) -> Iterable[Rejected]:
    """An offering that EC2 refused cannot be bought, whatever it costs."""
    for capacity_type, instance_type, zone in sorted(unavailable)[:MOST_NAMED]:
        yield Rejected(f"{instance_type} {zone} {capacity_type}", NO_CAPACITY)


def plan_decision(
    plan: Plan, created: Sequence[PlannedMachine], snapshot: Snapshot
) -> tuple[dict[str, Any], list[Rejected]]:
    """The document of a plan, and what it did not do."""
    pods = by_uid(snapshot.pods)
    rejected = [
        *_refused(plan, created, pods)[:MOST_NAMED],
        *(Rejected("input", fault) for fault in plan.faults[:MOST_NAMED]),
        *(_offerings_left_out(snapshot.unavailable) if created else ()),
    ]
    pending = sum(uid in pods for uid in plan.unschedulable)
    return plan_document(plan, created, pods, pending), rejected


def _refused(
    plan: Plan, created: Sequence[PlannedMachine], pods: Mapping[str, Pod]
) -> tuple[Rejected, ...]:
    """Pods and machines that the plan left without a place or an instance."""
    pending = {pods[uid].key: why for uid, why in plan.unschedulable.items() if uid in pods}
    return (*starmap(_pod_refused, pending.items()), *_machines_not_created(plan, created))


def plan_document(
    plan: Plan, created: Sequence[PlannedMachine], pods: Mapping[str, Pod], pending: int
) -> dict[str, Any]:
    """``bound``: no plan that places the same pods on new machines can cost less; None where it was not computed."""
    bound = plan.lower_bound_micro_usd_per_hour
    return {
        "text": _plan_text(plan, created, pending),
        "reason": _plan_reason([pods[uid] for one in created for uid in one.pods if uid in pods]),
        "pods": sum(len(machine.pods) for machine in created),
        "machines": [planned_text(machine) for machine in created[:MOST_NAMED]],
        "cost": sum(machine.offering.price_micro_usd_per_hour for machine in created) / 1e6,
        "bound": None if bound is None or not created else bound / 1e6,
        "moves": dict(islice(_moves(plan, created, pods), MOST_MOVES)),
        "comparable": bool(created),
    }


def _plan_reason(served: Sequence[Pod]) -> str:
    """Why machines are bought; empty when none is."""
    moving = sum(bool(pod.node_name) for pod in served)
    kept = sum(pod.virtual for pod in served)
    waiting = len(served) - moving - kept
    parts = [
        f"no node has room for {_count(waiting, 'pod')}" if waiting else "",
        f"the nodes of {_count(moving, 'pod')} go away" if moving else "",
        f"room is kept for {_count(kept, 'pod')} to come" if kept else "",
    ]
    return "; ".join(filter(None, parts))


def _plan_text(plan: Plan, created: Sequence[PlannedMachine], pending: int) -> str:
    there, held = sum(map(len, plan.existing.values())), len(plan.machines) - len(created)
    parts = [
        f"{_count(len(created), 'machine')} for {_count(sum(len(m.pods) for m in created), 'pod')}"
        if created
        else "",
        f"{_count(there, 'pod')} on capacity that is there or on its way" if there else "",
        f"{_count(held, 'machine')} not created" if held > 0 else "",
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
            *(_gone_text(c.machine) for c in command.candidates[:MOST_NAMED]),
            *(f"+ {planned_text(one)}" for one in command.replacements[:MOST_NAMED]),
        ],
        "cost": -command.saving_micro_usd_per_hour / 1e6,
        "bound": None,
        "rejected": [],
        "moves": {},
        "comparable": bool(command.replacements),
    }


def dropped_document(command: Command, verdict: Verdict) -> tuple[str, dict[str, Any]]:
    """(id, document) of a command that was right when it was proposed and is not any more."""
    document = command_document(command) | {"text": f"not carried out: {command.text}"}
    why = f"{verdict.cause}: {verdict.text}"
    document["rejected"] = [Rejected(command.text, why).document()]
    return f"{command.id}-dropped", document | {"cost": None, "comparable": False}
