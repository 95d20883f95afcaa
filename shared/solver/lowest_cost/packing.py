"""LowestCost as a placement: machines are packed first and then built pod by pod.

Existing capacity comes first, as in FewestNodes. The remaining pods are packed per pool, in order of preference. Each
packed machine is opened, and the same ``Admitter`` as in FewestNodes decides about each pod. Pods that it refuses, and
classes that the packing does not cover, are placed by FewestNodes. So a plan of this policy is as valid as one of
FewestNodes, even if the packing is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from shared.domain import labels as keys
from shared.domain.resources import CPU
from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.lower import extended_columns
from shared.solver.lowest_cost.building import Building, Packed
from shared.solver.lowest_cost.demand import Batch, demand_of
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.reserved import WaitingClass, fill_reservations
from shared.solver.lowest_cost.room import Room, cost, prices
from shared.solver.lowest_cost.rules import Allowed, Rules
from shared.solver.lowest_cost.search import Work, best_patterns
from shared.solver.lowest_cost.spread import (
    LabelPlan,
    Pins,
    ZonePlan,
    counts_others,
    host_limit,
    wants_one_host,
)
from shared.solver.placement.fewest_nodes import Placement, Run
from shared.solver.placement.planned_machines import BEST_EFFORT, Admission, OpenMachine
from shared.solver.placement.together import Together
from shared.solver.pod_classes import PodClass
from shared.solver.pools.packing_policy import is_packed
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.reservations.places import FreePlaces
from shared.solver.topology.counting import Refusal

_PACKING_ROUNDS = 2
"""How often pods are packed: pods that the first machines refuse are packed once more."""


@dataclass(frozen=True)
class PackingSettings:
    """Settings of the packing; see ``SolverSettings``."""

    policy: str
    effort: int
    most_node_cpu_milli: int | None
    reserved: tuple[FreePlaces, ...] = ()
    """The free places of capacity reservations."""
    plans_labels: bool = False
    """Is a value planned for each label that pods are spread over?"""
    units: float = 0.0
    """Of the rounding of the mix of all pods; 0: there is none."""


@dataclass(slots=True)
class PackedPlacement(Placement):
    """A fresh ``Placement`` that packs before it places."""

    settings: PackingSettings = field(kw_only=True)
    _small_only: bool = False
    _free: dict[str, FreePlaces] = field(init=False, default_factory=dict)
    """Reservation id -> its places that this placement has not used."""

    @classmethod
    def of(cls, fresh: Placement, settings: PackingSettings) -> PackedPlacement:
        """A packed placement from one without placed pods. ``fresh`` must not be used any more."""
        taken = {f.name: getattr(fresh, f.name) for f in fields(Placement) if f.init}
        return cls(**taken, settings=settings)

    def run(self, queue: list[Run]) -> None:
        """Packs the classes that the packing covers, then places the rest as FewestNodes."""
        self._small_only = self.settings.most_node_cpu_milli is not None
        self._free = {one.offering.reservation_id: one for one in self.settings.reserved}
        best_effort = self.min_values_policy == BEST_EFFORT
        rules, effort = (
            Rules(best_effort=best_effort),
            Effort(float(self.settings.effort)),
        )
        self._together = Together(self.topology, queue if self.targets else ())
        left = [run for run in (self._after_existing(*run) for run in queue) if run[1]]
        for _ in range(_PACKING_ROUNDS):
            before = _count(left)
            left = self._packed(left, rules, effort) if left else left
            left = self._into_room(left) if left else left
            if _count(left) == before:
                break
        self.held.use(self._free)
        Placement.run(self, left)
        if self._small_only:
            self._place_large(left)

    def counts_others(self, pods: PodClass) -> bool:
        """Has the class a rule by host name that does not count its own pods?"""
        return counts_others(self.topology, pods)

    def _place_large(self, runs: list[Run]) -> None:
        """Places the pods that fit no machine within the size limit on larger ones."""
        self._small_only = False
        for pods in self.registry:
            pods.errors.clear()
        left = ((pods, [uid for uid in uids if uid in self.verdicts]) for pods, uids in runs)
        Placement.run(self, [run for run in left if run[1]])

    def _types_within_limits(self, template: PoolTemplate) -> TypeSet:
        """Types within pool limits and, at first, within the size limit, for machines outside the packing."""
        found = Placement._types_within_limits(self, template)
        if not self._small_only:
            return found
        return template.sets.of_rows(self.small_types(template, found.rows))

    def small_types(self, template: PoolTemplate, types: Indices) -> Indices:
        """The types within the size limit."""
        most = self.settings.most_node_cpu_milli
        if most is None:
            return types
        listed = template.table.types
        small = [i for i in map(int, types) if listed[i].capacity.get(CPU, 0) <= most]
        return np.array(small, dtype=np.intp)

    def _after_existing(self, pods: PodClass, uids: list[str]) -> Run:
        """The pods that existing capacity does not take."""
        single = self.is_single(pods)
        while uids:
            placed = self._on_existing(pods, uids[:1] if single else uids)
            if not placed:
                break
            uids = uids[placed:]
        return pods, uids

    def _packed(self, runs: list[Run], rules: Rules, effort: Effort) -> list[Run]:
        """Packs into pools in order of preference; each gets the pods that no earlier pool can run (NP-22)."""
        waiting = [self._waiting_class(pods, uids, rules) for pods, uids in runs]
        whole = Work(effort, self.settings.effort, self.settings.units)
        asked = _pods(waiting)
        for at, template in enumerate(self.templates):
            mine = [one for one in waiting if at in one.allowed and one.uids]
            if mine and uses_lowest_cost(template, self.settings):
                work = whole.share(_pods(mine), left=_pods(waiting), asked=asked)
                passed_on = self._in_pool(at, mine, work)
                effort.spend(work.effort)
                mine = [one for one in mine if one not in passed_on]
            for one in mine:
                one.allowed.clear()
        return [(one.pods, one.uids) for one in waiting if one.uids]

    def _waiting_class(self, pods: PodClass, uids: list[str], rules: Rules) -> WaitingClass:
        """The pods with the pools that may run them, after relaxation if no pool may (SCH-23)."""
        while uids:
            found = ((i, rules.allowed(pods, t)) for i, t in enumerate(self.templates))
            allowed = {i: one for i, one in found if one is not None}
            relaxed = None if allowed else self._relaxed(pods, uids)
            if relaxed is None:
                covered = not wants_one_host(self.topology, pods)
                return WaitingClass(pods, uids, allowed if covered else {})
            pods, uids = self._after_existing(relaxed, uids)
        return WaitingClass(pods, uids, {})

    def _in_pool(self, at: int, wanted: list[WaitingClass], work: Work) -> list[WaitingClass]:
        """Packs into one pool and removes placed pods from ``wanted``. Returns the classes for the next pool."""
        template = self.templates[at]
        fill_reservations(self, template, at, wanted, self._free)
        classes = [one.pods for one in wanted] if self.settings.plans_labels else []
        labels = LabelPlan(self.topology, classes, template.requirements)
        plan = ZonePlan(self.topology, self.table.zones, self.table.axis.cpu)
        parts: dict[Pins, list[WaitingClass]] = {}
        for one in wanted:
            for pins, uids in labels.split(one.pods, one.uids).items():
                part = replace(one, uids=uids, allowed={at: self._pinned(one.allowed[at], pins)})
                parts.setdefault(pins, []).append(part)
        packings: list[Packed] = []
        for pins, some in parts.items():
            batches = self._batches(at, some, plan)
            if batches:
                demand = demand_of(batches, template, self.settings.most_node_cpu_milli)
                extended = extended_columns(self.table.axis, demand.problem.requests)
                patterns = best_patterns(demand.problem, extended, work.part(len(parts)))
                packings.append(Packed(demand, patterns, pins))
        if not packings:
            return []
        placed = Building(self, template).build(packings)
        for one in wanted:
            one.uids = [uid for uid in one.uids if uid not in placed]
        too_large = {pods for packed in packings for pods in packed.demand.too_large()}
        within = Placement._types_within_limits(self, template)
        exhausted = template.nodes_exhausted or not within.bits
        return [one for one in wanted if one.uids and (exhausted or one.pods in too_large)]

    def _pinned(self, allowed: Allowed, pins: Pins) -> Allowed:
        """Only the capacity type of the labels."""
        kind = dict(pins).get(keys.CAPACITY_TYPE)
        if kind is None:
            return allowed
        only = np.array([one == kind for one in self.table.capacity_types], dtype=np.bool_)
        return allowed._replace(kinds=allowed.kinds & only)

    def _batches(self, at: int, wanted: list[WaitingClass], plan: ZonePlan) -> list[Batch]:
        found = []
        for one in wanted:
            limit = host_limit(self.topology, one.pods)
            start = 0
            split = plan.split(one.pods, len(one.uids), one.allowed[at].zones)
            for zone, count in split.items():
                uids = one.uids[start : start + count]
                batch = Batch(one.pods, uids, one.allowed[at], zone)
                if limit is not None:
                    batch.group, batch.most_per_machine = limit
                found.append(batch)
                start += count
        return found

    def _into_room(self, runs: list[Run]) -> list[Run]:
        """Places pods on open machines that stay as cheap with them. Returns the pods that fit on none."""
        if not self.machines:
            return runs
        room, left = Room(self.machines), []
        for pods, uids in runs:
            kept = [uid for uid in uids if not self._fits_in(room, pods, uid)]
            if kept:
                left.append((pods, kept))
        return left

    def _fits_in(self, room: Room, pods: PodClass, uid: str) -> bool:
        for index in room.candidates(pods):
            machine = self.machines[index]
            if not uses_lowest_cost(machine.template, self.settings):
                continue
            admission = self._admitter.admit(machine, pods, 1)
            if isinstance(admission, Refusal):
                if admission.is_final:
                    room.close(index, pods)
                continue
            now = prices(machine.template, admission.requirements, admission.types.rows).min()
            if now <= cost(machine):
                self._commit(index, admission, pods, [uid])
                room.update(index)
                return True
        return False

    def open_machine(self, machine: OpenMachine, pods: PodClass, uids: list[str]) -> int:
        """Opens a machine with pods from the front of ``uids``. Returns how many; with none it is not opened."""
        admission = self._admitter.admit(machine, pods, len(uids))
        if not isinstance(admission, Admission):
            return 0
        self.machines.append(machine)
        self._columns.append()
        self._commit(len(self.machines) - 1, admission, pods, uids)
        machine.template.count_new_machine(machine.types)
        return admission.count

    def fill_machine(self, index: int, pods: PodClass, uids: list[str]) -> int:
        """Places pods from the front of ``uids`` on an open machine. Returns how many."""
        admission = self._admitter.admit(self.machines[index], pods, len(uids))
        if not isinstance(admission, Admission):
            return 0
        self._commit(index, admission, pods, uids)
        return admission.count


def uses_lowest_cost(template: PoolTemplate, settings: PackingSettings) -> bool:
    """Is the pool's policy, or the default for a pool without one, LowestCost or Balanced?"""
    return is_packed(template.pool, settings.policy)


def _count(runs: list[Run]) -> int:
    return sum(len(uids) for _, uids in runs)


def _pods(waiting: list[WaitingClass]) -> int:
    """How many of the pods some pool may run."""
    return sum(len(one.uids) for one in waiting if one.allowed)
