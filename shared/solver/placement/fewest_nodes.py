"""FewestNodes, Karpenter's placement: a queue of pods, tried on targets in a fixed order.

Order of pods: CPU descending, memory descending, age, UID (SCH-30). Order of targets: existing
capacity, claims opened in this plan with the fewest pods first, then a new claim from the pools by
weight (SCH-32). A pod that finds no place gives up one preference and goes to the end of the queue;
the queue ends when a whole cycle changes nothing (SCH-31). Nothing placed is moved again (SCH-34).

Equal pods next to each other are one run. A run is placed at once where that gives the same result
as one by one: no topology rule, no host port, and a single place that can take them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shared.domain import labels as keys
from shared.domain.expressions import Toleration, first_untolerated
from shared.domain.requirements import Requirements
from shared.errors import InvalidObject
from shared.solver import reasons
from shared.solver.encode import Amounts, Indices, Mask, TypeTable, times
from shared.solver.output import Place
from shared.solver.placement.existing import ExistingTarget
from shared.solver.placement.machine_columns import ClaimColumns
from shared.solver.placement.planned_machines import (
    Admission,
    Admitter,
    OpenClaim,
    lacking_values,
    lowered,
)
from shared.solver.placement.relaxation import dropped, relax
from shared.solver.plan import GivenUp
from shared.solver.pod_classes import ClassRegistry, PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.ports import first_conflict
from shared.solver.reservations.held import LOSES_PLACE, HeldPlaces
from shared.solver.topology.counting import Refusal, Topology

STRICT, BEST_EFFORT = "Strict", "BestEffort"
"""Policies of minValues: the second would rather have fewer kinds of machines than none (SCH-12)."""

_MOST_GIVEN_UP = 100
_TAINTS = "/taints"
"""Stands beside label keys, and is none."""

Run = tuple[PodClass, list[str]]
"""A class and the UIDs of some of its pods, in queue order."""


def never() -> bool:
    """For a plan that may take as long as it takes."""
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
    """The verdict when no pool can be used at all, or what is wrong with those left out."""
    claims: list[OpenClaim] = field(default_factory=list)
    existing: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    verdicts: dict[str, str] = field(default_factory=dict)
    given_up: list[GivenUp] = field(default_factory=list)
    faults: tuple[str, ...] = ()
    """What of the input is left out because it is wrong."""
    min_values_policy: str = STRICT
    max_instance_types: int = 600
    held: HeldPlaces = field(default_factory=HeldPlaces)
    """Places in reservations, which are filled before anything is bought."""
    time_is_up: Callable[[], bool] = never
    """Asked before each class; what is not placed by then waits for the next plan (BAT-07)."""
    _admitter: Admitter = field(init=False)
    _columns: ClaimColumns = field(init=False)
    _room: Amounts = field(init=False)
    """[resources, targets]."""
    _open_to: dict[PodClass, Mask] = field(default_factory=dict)
    _suited: dict[tuple[Requirements, tuple[Toleration, ...]], Mask] = field(default_factory=dict)
    _refused: dict[tuple[PoolTemplate, str], str] = field(default_factory=dict)
    _target_codes: dict[str, Indices] = field(default_factory=dict)
    _closed_to: dict[PodClass, Mask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        width = len(self.table.axis.names)
        best_effort = self.min_values_policy == BEST_EFFORT
        self._admitter = Admitter(self.topology, best_effort=best_effort)
        self._columns = ClaimColumns.empty(width)
        rows = [target.room for target in self.targets]
        by_target = np.array(rows, dtype=np.int64).reshape(len(rows), width)
        self._room = np.ascontiguousarray(by_target.T)

    def run(self, queue: list[Run]) -> None:
        """Places what can be placed. Ends: each cycle places a pod or drops one of finitely many
        preferences, or is the last."""
        changed = True
        while queue and changed:
            changed = False
            failed: list[Run] = []
            for at, (pods, uids) in enumerate(queue):
                if self.time_is_up():
                    self._put_off(queue[at:])
                    changed = False
                    break
                left = self._place(pods, uids)
                for other in pods.others:
                    left = self._place(other, left)
                changed = changed or len(left) < len(uids)
                if left:
                    relaxed = self._relaxed(pods, left)
                    changed = changed or relaxed is not None
                    failed.append((relaxed or pods, left))
            queue = failed
        self.held.settle()
        kept = [claim for claim in self.claims if self._has_choice(claim)]
        if len(kept) < len(self.claims):
            self.claims = kept
            self._columns = ClaimColumns.of(kept, len(self.table.axis.names))
            self._closed_to.clear()

    def _put_off(self, runs: list[Run]) -> None:
        """Those that were looked at before keep what was said of them."""
        for _, uids in runs:
            for uid in uids:
                self.verdicts.setdefault(uid, reasons.OUT_OF_TIME)

    def _has_choice(self, claim: OpenClaim) -> bool:
        """SCH-103: does the list of types, cut at its length, still hold what minValues asks for?
        If not, the claim is lowered (BestEffort), or its pods get a verdict."""
        choosy = claim.requirements.asks_for_values
        if not choosy or len(claim.types) <= self.max_instance_types:
            return True
        kept = Place.of(claim, self.table).by_price(claim.types.mask)[: self.max_instance_types]
        lacking = lacking_values(claim.requirements, kept, self.table)
        if lacking and self.min_values_policy == BEST_EFFORT:
            claim.requirements = lowered(claim.requirements, kept, self.table)
        elif lacking:
            cause = "; ".join(lacking.values())
            verdict = reasons.min_values_unmet_by_pool(claim.template.pool, cause)
            self.verdicts.update(dict.fromkeys(claim.pods, verdict))
            return False
        return True

    def _relaxed(self, pods: PodClass, uids: list[str]) -> PodClass | None:
        pod = relax(pods.pod, tolerate_preferred=self.tolerate_preferred)
        if pod is None:
            return None
        if len(self.given_up) < _MOST_GIVEN_UP:
            self.given_up.append(GivenUp(uids[0], len(uids), dropped(pods.pod, pod)))
        try:
            found = self.registry.intern(pod)
        except InvalidObject:
            return None
        self.topology.register(found)
        return found

    def _place(self, pods: PodClass, uids: list[str]) -> list[str]:
        """The UIDs that found no place. What stops the first of a class stops the rest too."""
        single = self.topology.concerns(pods) or bool(pods.pod.host_ports) or pods.attaches
        at = 0
        while at < len(uids):
            batch = uids[at : at + 1] if single else uids[at:]
            placed = self._on_existing(pods, batch) or self._on_claims(pods, batch)
            if placed == 0:
                placed = self._on_new_claim(pods, batch)
            if placed == 0:
                self.verdicts.update(dict.fromkeys(uids[at:], self.verdicts[batch[0]]))
                break
            for uid in batch[:placed]:
                self.verdicts.pop(uid, None)
            at += placed
        return uids[at:]

    def _on_existing(self, pods: PodClass, uids: list[str]) -> int:
        """SCH-50. Places from the front of ``uids`` on the first target with room; how many."""
        if not self.targets:
            return 0
        allowed = self._open_to.get(pods)
        if allowed is None:
            allowed = self._open_to[pods] = self._suited_targets(pods).copy()
        fitting = allowed
        for column, amount in enumerate(pods.amounts):
            if amount > 0:
                fitting = fitting & (self._room[column] >= amount)
        left = fitting.nonzero()[0]
        while left.size:
            index = int(left[0])
            refusal = self._refusal(index, pods, uids[0])
            if refusal is None:
                count = min(len(uids), times(self._room[:, index], pods.requests))
                self._commit_existing(index, pods, uids[:count])
                return count
            allowed[index] = not refusal.is_final
            domains = self._domains(refusal.key)
            same = left[:1] if domains is None else left[domains[left] == domains[index]]
            left = left[1:] if same.size == 1 else left[~np.isin(left, same)]
        return 0

    def _refusal(self, index: int, pods: PodClass, uid: str) -> Refusal | None:
        """Volumes, ports and topology of one target (SCH-50)."""
        target = self.targets[index]
        if pods.attaches:
            volumes = self.registry.volumes[uid]
            if excess := target.attachments.excess(volumes.attached):
                return Refusal(excess, is_final=not volumes.shared)
        conflict = first_conflict(pods.pod.host_ports, target.ports)
        if conflict is not None:
            return Refusal(reasons.port_conflict(conflict), is_final=True)
        narrowed = self.topology.narrow(pods, target.host, target.labels)
        return narrowed if isinstance(narrowed, Refusal) else None

    def _domains(self, key: str) -> Indices | None:
        """Equal numbers for targets in one domain of a topology key, so that one refusal rules out
        a whole zone. None where the targets are their own domains."""
        return None if key in ("", keys.HOSTNAME) else self._codes(key)

    def _codes(self, key: str) -> Indices:
        """A number per target, equal for equal values of a label; for ``_TAINTS``, equal taints."""
        if key not in self._target_codes:
            codes: dict[object, int] = {}
            values = (t.taints if key == _TAINTS else t.possible(key) for t in self.targets)
            numbers = [codes.setdefault(value, len(codes)) for value in values]
            self._target_codes[key] = np.array(numbers, dtype=np.intp)
        return self._target_codes[key]

    def _suited_targets(self, pods: PodClass) -> Mask:
        """``_allowed_targets``, once for all classes that ask for the same."""
        at = (pods.requirements, pods.pod.tolerations)
        found = self._suited.get(at)
        if found is None:
            found = self._suited[at] = self._allowed_targets(pods)
        return found

    def _allowed_targets(self, pods: PodClass) -> Mask:
        """Taints and labels of each target, decided once per distinct combination that matters."""
        combined = self._codes(_TAINTS)
        for wanted in pods.requirements:
            codes = self._codes(wanted.key)
            both = combined * (int(codes.max()) + 1) + codes
            combined = np.unique(both, return_inverse=True)[1]
        _, firsts, kinds = np.unique(combined, return_index=True, return_inverse=True)
        verdicts = [self._allows(self.targets[int(first)], pods) for first in firsts]
        allowed: Mask = np.array(verdicts, dtype=np.bool_)[kinds]
        return allowed & (self._room >= 0).all(axis=0)

    def _allows(self, target: ExistingTarget, pods: PodClass) -> bool:
        tolerated = first_untolerated(target.taints, pods.pod.tolerations) is None
        return tolerated and target.suits(pods.requirements)

    def _commit_existing(self, index: int, pods: PodClass, uids: list[str]) -> None:
        target = self.targets[index]
        self._room[:, index] -= len(uids) * pods.requests
        target.ports += pods.pod.host_ports
        for uid in uids if pods.attaches else ():
            target.attachments.add(self.registry.volumes[uid].attached)
        self.existing[target.name] += uids
        self.topology.record(pods, target.host, len(uids))

    def _on_claims(self, pods: PodClass, uids: list[str]) -> int:
        """SCH-32 (b): machines that this round opened already, fewest pods first."""
        if not self.claims:
            return 0
        allowed = self._open_claims(pods)
        first = self._columns.emptiest(pods.amounts, allowed) if len(uids) == 1 else None
        if first is not None and (placed := self._on_claim(first, pods, uids, 1)):
            return placed
        number, candidates = self._columns.candidates(pods.amounts, allowed)
        count = len(uids) if number == 1 else 1
        for index in candidates:
            if index != first and (placed := self._on_claim(index, pods, uids, count)):
                return placed
        return 0

    def _on_claim(self, index: int, pods: PodClass, uids: list[str], count: int) -> int:
        """How many of ``uids``, ``count`` at most, one claim took."""
        claim = self.claims[index]
        admission = self._admitter.admit(claim, pods, count)
        if isinstance(admission, Admission):
            admission = self.held.admit(claim, admission)
        if isinstance(admission, Admission):
            self._commit(index, admission, pods, uids)
            return admission.count
        if admission is LOSES_PLACE and count > 1:
            return self._on_claim(index, pods, uids, 1)
        if admission.is_final:
            self._close(index, pods)
        return 0

    def _open_claims(self, pods: PodClass) -> Mask | None:
        """Claims that may take this class, size aside, one entry per claim; None: all."""
        limits = self.topology.limits(pods)
        allowed = self._columns.within(limits, self.claims) if limits else None
        closed = self._closed_to.get(pods)
        if closed is None:
            return allowed
        found = np.ones(len(self.claims), dtype=np.bool_) if allowed is None else allowed
        found[: len(closed)] &= ~closed[: len(found)]
        return found

    def _close(self, index: int, pods: PodClass) -> None:
        """This claim never takes this class."""
        closed = self._closed_to.get(pods)
        if closed is None or len(closed) <= index:
            longer = np.zeros(len(self._columns.pods), dtype=np.bool_)
            if closed is not None:
                longer[: len(closed)] = closed
            closed = self._closed_to[pods] = longer
        closed[index] = True

    def _commit(self, index: int, admission: Admission, pods: PodClass, uids: list[str]) -> None:
        claim = self.claims[index]
        is_new = not claim.pods
        other_place = is_new or claim.requirements is not admission.requirements
        claim.commit(admission, pods, uids[: admission.count])
        if other_place:
            self._columns.set_zone(index, claim)
        self._columns.set_content(index, claim)
        self.topology.record(pods, claim.host(claim.requirements), admission.count)
        self._columns.count(index, claim, self.topology.counted_by_host(pods))

    def _on_new_claim(self, pods: PodClass, uids: list[str]) -> int:
        """SCH-32 (c), SCH-104: the first pool in order of preference that works."""
        causes = []
        for template in self.templates:
            known = pods.errors.get(template.pool.key)
            result = self._open(template, pods, len(uids)) if known is None else known
            if isinstance(result, str):
                causes.append(result)
                continue
            claim, admission = result
            self.claims.append(claim)
            self._columns.append()
            self._commit(len(self.claims) - 1, admission, pods, uids)
            template.take(claim.types)
            return admission.count
        causes += [self.no_template] if self.no_template else []
        verdict = "; ".join(causes)
        self.verdicts.update(dict.fromkeys(uids, verdict))
        return 0

    def _open(
        self, template: PoolTemplate, pods: PodClass, count: int
    ) -> tuple[OpenClaim, Admission] | str:
        """A new claim with its first pods, or the reason why not (SCH-33). Limits count the claim's
        types after its first pod, so a limited pool starts with one."""
        if template.nodes_exhausted:
            return self._remember(template, pods, reasons.node_limit_exhausted(template.pool))
        types = self._types_within_limits(template)
        if not types.bits:
            return self._remember(template, pods, reasons.limits_exceeded(template.pool))
        known = self._admitter.on_empty(template, pods)
        if isinstance(known, Refusal):
            verdict = self._verdict(template, known.text)
            return verdict if pods.has_topology else self._remember(template, pods, verdict)
        claim = OpenClaim(
            template=template,
            hostname=f"hostname-placeholder-{len(self.claims) + 1:04d}",
            requirements=template.requirements,
            types=types,
            used=np.zeros(len(pods.requests), dtype=np.int64),
        )
        at_once = count if template.remaining is None else 1
        inside = self.held.open(claim, lambda one: self._admitter.admit(one, pods, at_once))
        if inside is not None:
            return inside
        admission = self._admitter.admit(claim, pods, at_once)
        if isinstance(admission, Admission):
            return claim, admission
        cause = admission.text
        if cause == reasons.EXCEEDS_NODE:
            cause = self._admitter.why_no_type(claim, pods)
        verdict = self._verdict(template, cause)
        return self._remember(template, pods, verdict) if _is_static(admission, pods) else verdict

    def _verdict(self, template: PoolTemplate, cause: str) -> str:
        """SCH-33. Many pods are refused for the same cause."""
        known = self._refused.get((template, cause))
        if known is None:
            known = reasons.incompatible_with_pool(template.pool, template.overhead, cause)
            self._refused[template, cause] = known
        return known

    def _types_within_limits(self, template: PoolTemplate) -> TypeSet:
        if template.remaining is None:
            return template.all_types
        return template.sets.of(template.all_types.mask & template.within_limits())

    def _remember(self, template: PoolTemplate, pods: PodClass, verdict: str) -> str:
        pods.errors[template.pool.key] = verdict
        return verdict


def _is_static(refusal: Refusal, pods: PodClass) -> bool:
    """Is the answer the same for every later new claim? Not when topology had a say."""
    return refusal.is_final and not pods.has_topology
