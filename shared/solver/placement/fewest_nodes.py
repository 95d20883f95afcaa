"""FewestNodes, Karpenter's placement: a queue of pods, tried on targets in a fixed order.

Order of pods: CPU descending, memory descending, age, UID (SCH-30). Order of targets: existing capacity, machines
opened in this plan with the fewest pods first, then a new machine of a pool, by weight (SCH-32). A pod that fits
nowhere loses one preference and goes to the end of the queue; placement ends when a whole cycle changes nothing
(SCH-31). A placed pod is never moved again (SCH-34).

Equal pods next to each other form a run. A run is placed at once where that gives the same result as one by one: the
pods have no topology rule and no host port, and only one target can take them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shared.domain import labels as keys
from shared.errors import InvalidObject
from shared.solver import reasons
from shared.solver.encode import Mask, TypeTable, times
from shared.solver.output import PricedTypes
from shared.solver.placement.existing import ExistingTarget
from shared.solver.placement.machine_columns import MachineColumns
from shared.solver.placement.planned_machines import (
    BEST_EFFORT,
    STRICT,
    Admission,
    Admitter,
    OpenMachine,
    lowered_min_values,
    unmet_min_values,
)
from shared.solver.placement.relaxation import dropped, relax
from shared.solver.placement.target_columns import TargetColumns
from shared.solver.placement.together import Together
from shared.solver.plan import GivenUp
from shared.solver.pod_classes import ClassRegistry, PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.ports import first_conflict
from shared.solver.reservations.held import LOSES_RESERVATION, HeldPlaces
from shared.solver.topology.counting import Refusal, Topology

_MAX_DROPPED_PREFERENCES = 100

Run = tuple[PodClass, list[str]]
"""A class and the UIDs of some of its pods, in queue order."""


def no_deadline() -> bool:
    """``time_is_up`` of a plan without a time limit."""
    return False


@dataclass(slots=True)
class Placement:
    """The state of one plan while pods are placed."""

    table: TypeTable
    topology: Topology
    registry: ClassRegistry
    targets: list[ExistingTarget]
    templates: list[PoolTemplate]
    tolerate_preferred: bool
    no_template: str
    """The part of a verdict about the pools that cannot be used; empty when all can."""
    machines: list[OpenMachine] = field(default_factory=list)
    existing: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    verdicts: dict[str, str] = field(default_factory=dict)
    given_up: list[GivenUp] = field(default_factory=list)
    faults: tuple[str, ...] = ()
    """Invalid parts of the input that the plan leaves out, as messages."""
    min_values_policy: str = STRICT
    max_instance_types: int = 600
    held: HeldPlaces = field(default_factory=HeldPlaces)
    """Places in capacity reservations, which are filled before other capacity is bought."""
    time_is_up: Callable[[], bool] = no_deadline
    """Called before each run; once it is True, the remaining pods wait for the next plan (BAT-07)."""
    known: TargetColumns | None = None
    """``targets`` as columns, if these are known already."""
    _admitter: Admitter = field(init=False)
    _columns: MachineColumns = field(init=False)
    _existing: TargetColumns = field(init=False)
    _together: Together = field(init=False)
    _open_to: dict[PodClass, Mask] = field(default_factory=dict)
    _refused: dict[tuple[PoolTemplate, str], str] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    """Equal verdicts are one text: with many pools each has thousands of characters."""

    def __post_init__(self) -> None:
        width, best_effort = len(self.table.axis.names), self.min_values_policy == BEST_EFFORT
        self._admitter = Admitter(self.topology, best_effort=best_effort)
        self._columns = MachineColumns.empty(width)
        self._existing = self.known or TargetColumns(self.targets, width)

    def run(self, queue: list[Run]) -> None:
        """Places all pods that fit. Every cycle but the last places a pod or drops one of finitely many preferences."""
        self._together = Together(self.topology, queue if self.targets else ())
        changed = True
        while queue and changed:
            changed = False
            failed: list[Run] = []
            for at, (pods, uids) in enumerate(queue):
                if self.time_is_up():
                    self._defer(queue[at:])
                    changed = False
                    break
                left = self._place(pods, uids)
                if pods.others:
                    for other in pods.others:
                        left = self._place(other, left)
                changed = changed or len(left) < len(uids)
                if left:
                    relaxed = self._relaxed(pods, left)
                    changed = changed or relaxed is not None
                    failed.append((relaxed or pods, left))
            queue = failed
        self.held.write_requirements()
        kept = [machine for machine in self.machines if self._has_choice(machine)]
        if len(kept) < len(self.machines):
            self.machines = kept
            self._columns = MachineColumns.of(kept, len(self.table.axis.names))

    def _defer(self, runs: list[Run]) -> None:
        """Gives pods without a verdict from an earlier cycle the verdict OUT_OF_TIME."""
        for _, uids in runs:
            for uid in uids:
                self.verdicts.setdefault(uid, reasons.OUT_OF_TIME)

    def _has_choice(self, machine: OpenMachine) -> bool:
        """Do the first ``max_instance_types`` types meet minValues (SCH-103), if need be lowered (BestEffort)?
        If not, the machine's pods get a verdict."""
        has_min_values = machine.requirements.asks_for_values
        if not has_min_values or len(machine.types) <= self.max_instance_types:
            return True
        kept = PricedTypes.of(machine, self.table).by_price(machine.types.mask)[
            : self.max_instance_types
        ]
        lacking = unmet_min_values(machine.requirements, kept, self.table)
        if lacking and self.min_values_policy == BEST_EFFORT:
            machine.requirements = lowered_min_values(machine.requirements, kept, self.table)
        elif lacking:
            cause = "; ".join(lacking.values())
            verdict = reasons.min_values_unmet_by_pool(machine.template.pool, cause)
            self.verdicts.update(dict.fromkeys(machine.pods, verdict))
            return False
        return True

    def _relaxed(self, pods: PodClass, uids: list[str]) -> PodClass | None:
        pod = relax(pods.pod, tolerate_preferred=self.tolerate_preferred)
        if pod is None:
            return None
        if len(self.given_up) < _MAX_DROPPED_PREFERENCES:
            self.given_up.append(GivenUp(uids[0], len(uids), dropped(pods.pod, pod)))
        try:
            found = self.registry.intern(pod)
        except InvalidObject:
            return None
        self.topology.register(found)
        return found

    def _place(self, pods: PodClass, uids: list[str]) -> list[str]:
        """Places pods of one class and returns the UIDs that do not fit: when one does not, neither do the rest."""
        if len(uids) == 1:
            return [] if self._place_batch(pods, uids) else uids
        if self._takes_hosts_in_turn(pods):
            return self._place_apart(pods, uids)
        single, at = self.is_single(pods), 0
        while at < len(uids):
            batch = uids[at : at + 1] if single else uids[at:]
            placed = self._place_batch(pods, batch)
            if placed == 0:
                self.verdicts.update(dict.fromkeys(uids[at:], self.verdicts[batch[0]]))
                break
            at += placed
        return uids[at:]

    def _place_batch(self, pods: PodClass, uids: list[str]) -> int:
        """Places pods from the front of ``uids`` on the first target. Returns how many; if none, they get a verdict."""
        placed = self._on_existing(pods, uids) if self.targets else 0
        if placed == 0 and self.machines:
            placed = self._on_open_machines(pods, uids)
        if placed == 0:
            placed = self._on_new_machine(pods, uids)
        if self.verdicts:
            for uid in uids[:placed]:
                self.verdicts.pop(uid, None)
        return placed

    def _takes_hosts_in_turn(self, pods: PodClass) -> bool:
        plain = not pods.pod.host_ports and not pods.attaches
        return plain and self.topology.rules(pods).closes_hosts

    def _place_apart(self, pods: PodClass, uids: list[str]) -> list[str]:
        """As ``_place``, for pods that close each host to one another: each host is looked at once for all of them."""
        at, end = 0, len(uids)
        while at < end and self._on_existing(pods, uids[at : at + 1]):
            at += 1
        allowed = self._columns.allowed(pods, self.topology.rules(pods).checks, self.machines)
        for index in self._columns.candidates(pods.amounts, allowed)[1] if at < end else ():
            at += self._on_open_machine(index, pods, uids[at : at + 1], 1)
            if at == end:
                break
        while at < end and self._on_new_machine(pods, uids[at : at + 1]):
            at += 1
            at += self._open_alike(pods, uids[at:])
        for uid in uids[:at]:
            self.verdicts.pop(uid, None)
        if at < end:
            self.verdicts.update(dict.fromkeys(uids[at:], self.verdicts[uids[at]]))
        return uids[at:]

    def _open_alike(self, pods: PodClass, uids: list[str]) -> int:
        """Opens a machine like the last one, which has one pod of the class, for each of these. Returns how many: none
        where one more machine changes what the next may be."""
        last = self.machines[-1]
        if last.template.remaining is not None or self.held.free:
            return 0
        admission = Admission(1, last.requirements, last.types, last.content)
        for uid in uids:
            self.machines.append(last.alike(len(self.machines) + 1))
            self._columns.append()
            self._commit(len(self.machines) - 1, admission, pods, [uid])
        return len(uids)

    def is_single(self, pods: PodClass) -> bool:
        """True when pods of the class must be placed one by one."""
        return bool(self.topology.rules(pods).checks) or bool(pods.pod.host_ports) or pods.attaches

    def _on_existing(self, pods: PodClass, uids: list[str]) -> int:
        """Places pods from the front of ``uids`` on the first target with room (SCH-50). Returns how many."""
        if not self.targets:
            return 0
        allowed = self._open_to.get(pods)
        if allowed is None:
            allowed = self._open_to[pods] = self._existing.suited(pods).copy()
        fitting = allowed
        for column, amount in enumerate(pods.amounts):
            if amount > 0:
                fitting = fitting & (self._existing.room[column] >= amount)
        left = self._together.in_order(pods, self._existing, fitting.nonzero()[0])
        while left.size:
            index = int(left[0])
            refusal = self._refusal(index, pods, uids[0])
            if refusal is None:
                count = min(len(uids), times(self._existing.room[:, index], pods.requests))
                self._commit_existing(index, pods, uids[:count])
                return count
            allowed[index] = not refusal.is_final
            # A topology refusal rules out all targets of the same domain, for example a whole zone.
            domains = (
                None if refusal.key in ("", keys.HOSTNAME) else self._existing.codes(refusal.key)
            )
            same = left[:1] if domains is None else left[domains[left] == domains[index]]
            left = left[1:] if same.size == 1 else left[~np.isin(left, same)]
        return 0

    def _refusal(self, index: int, pods: PodClass, uid: str) -> Refusal | None:
        """Why one target cannot take the pod, by volumes, ports and topology (SCH-50); None: it can."""
        target = self.targets[index]
        if pods.attaches:
            volumes = self.registry.volumes[uid]
            if excess := target.attachments.excess(volumes.attached):
                return Refusal(excess, is_final=not volumes.shared)
        if conflict := first_conflict(pods.pod.host_ports, target.ports):
            return Refusal(reasons.port_conflict(conflict), is_final=True)
        checks = self.topology.rules(pods).checks
        narrowed = self.topology.narrow(checks, target.host, target.labels)
        return narrowed if isinstance(narrowed, Refusal) else None

    def _commit_existing(self, index: int, pods: PodClass, uids: list[str]) -> None:
        target = self.targets[index]
        self._existing.room[:, index] -= len(uids) * pods.requests
        target.ports += pods.pod.host_ports
        for uid in uids if pods.attaches else ():
            target.attachments.add(self.registry.volumes[uid].attached)
        self.existing[target.name] += uids
        self.topology.record(pods, target.host, len(uids))

    def _on_open_machines(self, pods: PodClass, uids: list[str]) -> int:
        """Places pods on a machine that this plan opened already, fewest pods first (SCH-32). Returns how many."""
        columns, checks = self._columns, self.topology.rules(pods).checks
        first = columns.first(pods, checks, self.machines) if len(uids) == 1 else None
        if first is not None and (placed := self._on_open_machine(first, pods, uids, 1)):
            return placed
        allowed = columns.allowed(pods, checks, self.machines)
        if allowed is not None and not len(allowed):
            return 0
        number, candidates = columns.candidates(pods.amounts, allowed)
        count = len(uids) if number == 1 else 1
        for index in candidates:
            if index != first and (placed := self._on_open_machine(index, pods, uids, count)):
                return placed
        return 0

    def _on_open_machine(self, index: int, pods: PodClass, uids: list[str], count: int) -> int:
        """Places up to ``count`` of ``uids`` on one machine. Returns how many."""
        machine = self.machines[index]
        admission = self._admitter.admit(machine, pods, count)
        if self.held.free and isinstance(admission, Admission):
            admission = self.held.admit(machine, admission)
        if isinstance(admission, Admission):
            self._commit(index, admission, pods, uids)
            return admission.count
        if admission is LOSES_RESERVATION and count > 1:
            return self._on_open_machine(index, pods, uids, 1)
        if admission.is_final:
            self._columns.rule_out(index, pods)
        return 0

    def _commit(self, index: int, admission: Admission, pods: PodClass, uids: list[str]) -> None:
        machine = self.machines[index]
        other_place = not machine.pods or machine.requirements is not admission.requirements
        machine.commit(admission, pods, uids[: admission.count])
        if other_place:
            self._columns.set_zone(index, machine)
        self._columns.set_content(index, machine)
        for group in self.topology.record(
            pods, machine.host(machine.requirements), admission.count
        ):
            self._columns.count(index, machine, group)

    def _on_new_machine(self, pods: PodClass, uids: list[str]) -> int:
        """Opens a machine of the first pool, by preference, that can run the class (SCH-32, SCH-104)."""
        causes = []
        for template in self.templates:
            known = pods.errors.get(template.pool.key)
            result = self._open(template, pods, len(uids)) if known is None else known
            if isinstance(result, str):
                causes.append(result)
                continue
            machine, admission = result
            self.machines.append(machine)
            self._columns.append()
            self._commit(len(self.machines) - 1, admission, pods, uids)
            template.count_new_machine(machine.types)
            return admission.count
        verdict = "; ".join(filter(None, (*causes, self.no_template)))
        self.verdicts.update(dict.fromkeys(uids, self._texts.setdefault(verdict, verdict)))
        return 0

    def _open(
        self, template: PoolTemplate, pods: PodClass, count: int
    ) -> tuple[OpenMachine, Admission] | str:
        """A new machine with its first pods, or the reason why there is none (SCH-33). In a pool with limits it takes
        one pod only: usage counts the types that remain after the first pod."""
        if template.nodes_exhausted:
            return self._cache_verdict(template, pods, template.why_exhausted())
        types = self._types_within_limits(template)
        if not types.bits:
            return self._cache_verdict(template, pods, reasons.limits_exceeded(template.pool))
        known = self._admitter.on_empty(template, pods)
        if isinstance(known, Refusal):
            verdict = self._verdict(template, known.text)
            return verdict if pods.has_topology else self._cache_verdict(template, pods, verdict)
        number = len(self.machines) + 1
        machine = OpenMachine.empty(template, number, template.requirements, types)
        at_once = count if template.remaining is None else 1
        inside = self.held.open(machine, lambda one: self._admitter.admit(one, pods, at_once))
        if inside is not None:
            return inside
        admission = self._admitter.admit(machine, pods, at_once)
        if isinstance(admission, Admission):
            return machine, admission
        cause = admission.text
        if cause == reasons.EXCEEDS_NODE:
            cause = self._admitter.why_no_type(machine, pods)
        verdict = self._verdict(template, cause)
        return (
            self._cache_verdict(template, pods, verdict) if _is_static(admission, pods) else verdict
        )

    def _verdict(self, template: PoolTemplate, cause: str) -> str:
        """The pool's part of a verdict (SCH-33), cached, since many pods are refused for the same cause."""
        known = self._refused.get((template, cause))
        if known is None:
            known = reasons.incompatible_with_pool(template.pool, template.overhead, cause)
            self._refused[template, cause] = known
        return known

    def _types_within_limits(self, template: PoolTemplate) -> TypeSet:
        if template.remaining is None:
            return template.all_types
        return template.sets.of(template.all_types.mask & template.within_limits())

    def _cache_verdict(self, template: PoolTemplate, pods: PodClass, verdict: str) -> str:
        pods.errors[template.pool.key] = verdict
        return verdict


def _is_static(refusal: Refusal, pods: PodClass) -> bool:
    """Is the refusal the same for every later new machine? Topology rules may give another answer later."""
    return refusal.is_final and not pods.has_topology
