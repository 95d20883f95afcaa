"""LowestCost as a placement: machines are planned first and then built pod by pod.

Existing capacity comes first, as in FewestNodes. What is left is packed per pool in order of
preference, each planned machine is opened as a claim, and the same ``Admitter`` decides about each
pod: what it refuses, and every class that is not foreseen here, is placed as FewestNodes does it.
So a plan of this policy is as valid as one of FewestNodes, whatever the packing got wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from shared.domain.resources import CPU
from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.lower import extended_columns
from shared.solver.lowest_cost.building import Building
from shared.solver.lowest_cost.demand import Batch, demand_of
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.reserved import take_places
from shared.solver.lowest_cost.room import Room, cost, prices
from shared.solver.lowest_cost.rules import Allowed, Rules
from shared.solver.lowest_cost.search import best_patterns
from shared.solver.lowest_cost.spread import ZonePlan, host_limit, wants_one_host
from shared.solver.placement.fewest_nodes import BEST_EFFORT, Placement, Run
from shared.solver.placement.planned_machines import Admission, OpenClaim
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.reservations.places import FreePlaces
from shared.solver.topology.counting import Refusal

LOWEST_COST = "LowestCost"
_ROUNDS = 2
"""How often pods are packed: what the first machines refuse is packed once more."""


@dataclass(frozen=True)
class PackingSettings:
    """See ``SolverSettings``."""

    policy: str
    effort: int
    most_node_cpu_milli: int | None
    reserved: tuple[FreePlaces, ...] = ()
    """What capacity reservations have left."""


@dataclass(slots=True, eq=False)
class Wanted:
    """Pods of one class that wait for a new machine, and what each pool has for them."""

    pods: PodClass
    uids: list[str]
    allowed: dict[int, Allowed]
    """Position of the pool -> what the class may use there."""


@dataclass(slots=True)
class PackedPlacement(Placement):
    """A fresh ``Placement`` that packs before it places."""

    settings: PackingSettings = field(kw_only=True)
    _small_only: bool = False
    _free: dict[str, FreePlaces] = field(init=False, default_factory=dict)
    """Reservations by id, as far as this placement has not used them."""

    @classmethod
    def of(cls, fresh: Placement, settings: PackingSettings) -> PackedPlacement:
        """``fresh``: nothing placed yet. It must not be used any more."""
        taken = {f.name: getattr(fresh, f.name) for f in fields(Placement) if f.init}
        return cls(**taken, settings=settings)

    def run(self, queue: list[Run]) -> None:
        """Packs what can be foreseen, then places the rest."""
        self._small_only = self.settings.most_node_cpu_milli is not None
        self._free = {one.offering.reservation_id: one for one in self.settings.reserved}
        best_effort = self.min_values_policy == BEST_EFFORT
        rules, effort = Rules(best_effort=best_effort), Effort(float(self.settings.effort))
        left = [run for run in (self._after_existing(*run) for run in queue) if run[1]]
        for _ in range(_ROUNDS):
            before = _count(left)
            left = self._packed(left, rules, effort) if left else left
            left = self._into_room(left) if left else left
            if _count(left) == before:
                break
        self.held.use(self._free)
        Placement.run(self, left)
        if self._small_only:
            self._place_large(left)

    def _place_large(self, runs: list[Run]) -> None:
        """Pods that did not find a place below the size that is wanted."""
        self._small_only = False
        for pods in self.registry:
            pods.errors.clear()
        left = ((pods, [uid for uid in uids if uid in self.verdicts]) for pods, uids in runs)
        Placement.run(self, [run for run in left if run[1]])

    def _types_within_limits(self, template: PoolTemplate) -> TypeSet:
        """For machines that are not planned: also within the size that is wanted."""
        found = Placement._types_within_limits(self, template)
        if not self._small_only:
            return found
        return template.sets.of_rows(self.small_types(template, found.rows))

    def small_types(self, template: PoolTemplate, types: Indices) -> Indices:
        """Those no larger than wanted."""
        most = self.settings.most_node_cpu_milli
        if most is None:
            return types
        listed = template.table.types
        small = [i for i in map(int, types) if listed[i].capacity.get(CPU, 0) <= most]
        return np.array(small, dtype=np.intp)

    def _after_existing(self, pods: PodClass, uids: list[str]) -> Run:
        """What existing capacity does not take."""
        single = self.is_single(pods)
        while uids:
            placed = self._on_existing(pods, uids[:1] if single else uids)
            if not placed:
                break
            uids = uids[placed:]
        return pods, uids

    def is_single(self, pods: PodClass) -> bool:
        """Must these be placed one by one?"""
        return self.topology.concerns(pods) or bool(pods.pod.host_ports) or pods.attaches

    def _packed(self, runs: list[Run], rules: Rules, effort: Effort) -> list[Run]:
        """Pools in order of preference; each gets the pods that no earlier one may hold (NP-22)."""
        waiting = [self._wanted(pods, uids, rules) for pods, uids in runs]
        for at, template in enumerate(self.templates):
            mine = [one for one in waiting if at in one.allowed and one.uids]
            if mine and packs(template, self.settings):
                passed_on = self._in_pool(at, mine, effort)
                mine = [one for one in mine if one not in passed_on]
            for one in mine:
                one.allowed.clear()
        return [(one.pods, one.uids) for one in waiting if one.uids]

    def _wanted(self, pods: PodClass, uids: list[str], rules: Rules) -> Wanted:
        """A class that no pool may hold gives up preferences first (SCH-23)."""
        while uids:
            found = ((i, rules.allowed(pods, t)) for i, t in enumerate(self.templates))
            allowed = {i: one for i, one in found if one is not None}
            relaxed = None if allowed else self._relaxed(pods, uids)
            if relaxed is None:
                foreseen = not wants_one_host(self.topology, pods)
                return Wanted(pods, uids, allowed if foreseen else {})
            pods, uids = self._after_existing(relaxed, uids)
        return Wanted(pods, uids, {})

    def _in_pool(self, at: int, wanted: list[Wanted], effort: Effort) -> list[Wanted]:
        """Machines of one pool. Afterwards ``uids`` of each are those without a place; returns
        those that the next pool may have, since this one cannot hold them."""
        template = self.templates[at]
        take_places(self, template, at, wanted, self._free)
        batches = self._batches(at, wanted)
        if not batches:
            return []
        most = self.settings.most_node_cpu_milli
        demand = demand_of(batches, template, most)
        extended = extended_columns(self.table.axis, demand.problem.requests)
        patterns = best_patterns(demand.problem, extended, effort)
        placed = Building(self, template, demand).build(patterns)
        for one in wanted:
            one.uids = [uid for uid in one.uids if uid not in placed]
        too_large = demand.too_large()
        within = Placement._types_within_limits(self, template)
        exhausted = template.nodes_exhausted or not within.bits
        return [one for one in wanted if one.uids and (exhausted or one.pods in too_large)]

    def _batches(self, at: int, wanted: list[Wanted]) -> list[Batch]:
        plan = ZonePlan(self.topology, self.table.zones, self.table.axis.cpu)
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
        """The pods that no planned machine takes without becoming dearer."""
        if not self.claims:
            return runs
        room, left = Room(self.claims), []
        for pods, uids in runs:
            kept = [uid for uid in uids if not self._fits_in(room, pods, uid)]
            if kept:
                left.append((pods, kept))
        return left

    def _fits_in(self, room: Room, pods: PodClass, uid: str) -> bool:
        for index in room.candidates(pods):
            claim = self.claims[index]
            if not packs(claim.template, self.settings):
                continue
            admission = self._admitter.admit(claim, pods, 1)
            if isinstance(admission, Refusal):
                if admission.is_final:
                    room.close(index, pods)
                continue
            now = prices(claim.template, admission.requirements, admission.types.rows).min()
            if now <= cost(claim):
                self._commit(index, admission, pods, [uid])
                room.update(index)
                return True
        return False

    def open_claim(self, claim: OpenClaim, pods: PodClass, uids: list[str]) -> int:
        """How many of ``uids``, from the front, a new machine took. With none it is not opened."""
        admission = self._admitter.admit(claim, pods, len(uids))
        if not isinstance(admission, Admission):
            return 0
        self.claims.append(claim)
        self._columns.append()
        self._commit(len(self.claims) - 1, admission, pods, uids)
        claim.template.take(claim.types)
        return admission.count

    def fill_claim(self, index: int, pods: PodClass, uids: list[str]) -> int:
        """How many of ``uids``, from the front, an open machine took."""
        admission = self._admitter.admit(self.claims[index], pods, len(uids))
        if not isinstance(admission, Admission):
            return 0
        self._commit(index, admission, pods, uids)
        return admission.count


def packs(template: PoolTemplate, settings: PackingSettings) -> bool:
    """Does this pool's own word, or else the setting, ask for LowestCost?"""
    return (template.pool.packing or settings.policy) == LOWEST_COST


def _count(runs: list[Run]) -> int:
    return sum(len(uids) for _, uids in runs)
