"""Machines that this plan opens: what each holds, and which instance types can still be it.

A claim keeps every type that fits its pods so far; each pod it takes shrinks the list, and the
launch picks later (SCH-35). ``admit`` decides in Karpenter's order (SCH-40) without changing
anything; the answer is either an ``Admission`` that ``OpenClaim.commit`` applies, or a ``Refusal``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shared.domain import labels as keys
from shared.domain.expressions import Toleration, first_untolerated
from shared.domain.requirements import Requirement, Requirements
from shared.solver import reasons
from shared.solver.encode import Amounts, Indices, Mask, TypeTable
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.ports import HostPort, first_conflict
from shared.solver.topology.counting import Refusal, Topology
from shared.solver.topology.hosts import Host

_Question = tuple[Requirements, PoolTemplate, Requirements, tuple[Toleration, ...]]
"""What decides whether a machine's requirements and a class's meet."""


@dataclass(slots=True, eq=False)
class OpenClaim:
    """One machine to be. ``used`` is the pods' sum without daemon overhead."""

    template: PoolTemplate
    hostname: str
    """SCH-41: the placeholder that hostname rules count by; never written to the cluster."""
    requirements: Requirements
    types: TypeSet
    used: Amounts
    pods: list[str] = field(default_factory=list)
    ports: list[HostPort] = field(default_factory=list)
    _host: Host | None = None

    def host(self, requirements: Requirements) -> Host:
        """As topology sees it, with these requirements."""
        if self._host is None or self._host.requirements is not requirements:
            self._host = self.template.host(self.hostname, requirements)
        return self._host

    def commit(self, admission: Admission, pods: PodClass, uids: list[str]) -> None:
        """Takes the pods in."""
        self.requirements = admission.requirements
        self.types = admission.types
        self.used = admission.used
        self.ports += pods.pod.host_ports
        self.pods += uids


@dataclass(slots=True, eq=False)
class Admission:
    """A claim's state after it took ``count`` more pods of one class."""

    count: int
    requirements: Requirements
    types: TypeSet
    used: Amounts


class Admitter:
    """Decides whether a claim can take pods. Remembers how requirements meet: they repeat."""

    def __init__(self, topology: Topology, *, best_effort: bool = False) -> None:
        """``best_effort``: a new claim may have fewer kinds than minValues asks for (SCH-12)."""
        self._best_effort = best_effort
        self._topology = topology
        self._met: dict[_Question, Requirements | Refusal] = {}

    def admit(self, claim: OpenClaim, pods: PodClass, count: int) -> Admission | Refusal:
        """Room for up to ``count`` pods of a class. With host ports or topology, pass 1."""
        merged = self._requirements(claim, pods)
        if isinstance(merged, Refusal):
            return merged
        ports = pods.pod.host_ports
        if ports and (conflict := first_conflict(ports, claim.ports)) is not None:
            return Refusal(reasons.port_conflict(conflict), is_final=True)
        narrowed = self._topology.narrow(pods, claim.host(merged), merged)
        if isinstance(narrowed, Refusal):
            return narrowed
        types = self._types(claim, pods, narrowed)
        return self._fill(claim, pods, count, types, narrowed, is_final=narrowed is merged)

    def on_empty(self, template: PoolTemplate, pods: PodClass) -> Requirements | Refusal:
        """What a machine of this pool without pods would require with this class: the same for every one, but for
        host names."""
        return self._merged(template, template.requirements, pods)

    def _requirements(self, claim: OpenClaim, pods: PodClass) -> Requirements | Refusal:
        """Taints, then requirements."""
        merged = self._merged(claim.template, claim.requirements, pods)
        host = pods.requirements.get(keys.HOSTNAME)
        if host is None or isinstance(merged, Refusal) or host.has(claim.hostname):
            return merged
        there = f"{keys.HOSTNAME} In [{claim.hostname}]"
        cause = reasons.incompatible_requirements(f"key {keys.HOSTNAME}, {host} not in {there}")
        return Refusal(cause, is_final=True)

    def _merged(
        self, template: PoolTemplate, there: Requirements, pods: PodClass
    ) -> Requirements | Refusal:
        """``_meet``, remembered by all that it looks at."""
        asked = (there, template, pods.requirements, pods.pod.tolerations)
        found = self._met.get(asked)
        if found is None:
            found = self._met[asked] = _meet(template, there, pods)
        return found

    def _types(self, claim: OpenClaim, pods: PodClass, requirements: Requirements) -> TypeSet:
        """Types of the claim that still meet requirements and offering, and no daemon's ports."""
        if requirements is claim.requirements and not pods.pod.host_ports and claim.pods:
            return claim.types
        template = claim.template
        kept = template.usable(requirements)
        for daemon, with_daemon in template.daemons.daemons if pods.pod.host_ports else ():
            if first_conflict(pods.pod.host_ports, daemon.host_ports) is not None:
                kept = template.sets.of(kept.mask & ~with_daemon)
        return template.sets.both(claim.types, kept)

    def _fill(
        self,
        claim: OpenClaim,
        pods: PodClass,
        count: int,
        types: TypeSet,
        requirements: Requirements,
        *,
        is_final: bool,
    ) -> Admission | Refusal:
        """Resources last: how many pods the roomiest type takes, and which types take that many."""
        choosy = requirements.asks_for_values
        sets = claim.template.sets
        if count == 1 and not choosy:
            used = claim.used + pods.requests
            kept = sets.large_enough(types, used)
            if not kept.bits:
                return Refusal(reasons.EXCEEDS_NODE, is_final)
            return Admission(1, requirements, kept, used)
        rows = types.rows
        capacity = _how_many(claim.template.available[rows] - claim.used, pods.requests)
        placed = min(count, int(capacity.max(initial=0)))
        if placed < 1:
            return Refusal(reasons.EXCEEDS_NODE, is_final)
        if choosy:
            table = claim.template.table
            if self._best_effort and not claim.pods:
                requirements = lowered(requirements, rows[capacity >= 1], table)
            placed = _with_choice(requirements, rows, capacity, placed, table)
            if placed < 1:
                lacking = lacking_values(requirements, rows[capacity >= 1], table)
                return Refusal("; ".join(lacking.values()), is_final)
        kept = sets.of_rows(rows[capacity >= placed])
        return Admission(placed, requirements, kept, claim.used + placed * pods.requests)

    def _port_of_daemons(self, template: PoolTemplate, pods: PodClass) -> str:
        """SCH-40: the host port that a daemon has first; empty when none has one of the pod's."""
        for daemon, _ in template.daemons.daemons if pods.pod.host_ports else ():
            conflict = first_conflict(pods.pod.host_ports, daemon.host_ports)
            if conflict is not None:
                return f"{reasons.port_conflict(conflict)} by daemon set {daemon.key}"
        return ""

    def why_no_type(self, claim: OpenClaim, pods: PodClass) -> str:
        """SCH-42, SCH-43: which of the three conditions was ever met, for a claim without pods."""
        table, template = claim.template.table, claim.template
        merged = claim.requirements.intersect(pods.requirements.without(keys.HOSTNAME))
        merged = claim.host(merged).pinned(merged)
        narrowed = self._topology.narrow(pods, claim.host(merged), merged)
        asked = merged if isinstance(narrowed, Refusal) else narrowed
        zones, capacities = table.zone_mask(asked, template.zones), table.capacity_mask(asked)
        within = template.within_limits()
        matching: Mask = within & table.matching(asked)
        offering: Mask = within & table.with_offering(zones, capacities)
        fitting: Mask = within & (_how_many(template.available, pods.requests) >= 1)
        port = self._port_of_daemons(template, pods)
        if port and bool((matching & fitting & offering).any()):
            return port
        met = reasons.Filtering(
            bool(matching.any()),
            bool(fitting.any()),
            bool(offering.any()),
            bool((matching & fitting).any()),
            bool((matching & offering).any()),
            bool((fitting & offering).any()),
        )
        cpu = int(pods.requests[table.axis.cpu])
        total = table.axis.vector(template.overhead) + pods.requests
        cause = reasons.no_instance_type(met, cpu)
        text = reasons.unsatisfied(table.axis.resources(total), asked, cause)
        return text + reasons.excluded_by_limits(int((~within[template.types]).sum()))


def _with_choice(
    requirements: Requirements, types: Indices, capacity: Amounts, most: int, table: TypeTable
) -> int:
    """How many pods leave as many kinds of machines as minValues asks for: each one more
    leaves fewer."""
    enough, too_many = 0, most + 1
    while too_many - enough > 1:
        middle = most if too_many > most else (enough + too_many) // 2
        if lacking_values(requirements, types[capacity >= middle], table):
            too_many = middle
        else:
            enough = middle
    return enough


def lacking_values(requirements: Requirements, types: Indices, table: TypeTable) -> dict[str, str]:
    """SCH-12: the keys of which these types have fewer values than minValues asks for, and the
    words for it."""
    found = {}
    for wanted in requirements:
        if wanted.min_values is not None:
            count = _distinct(wanted, types, table)
            if count < wanted.min_values:
                text = reasons.min_values_unmet(wanted.key, wanted.min_values, count)
                found[wanted.key] = text
    return found


def lowered(requirements: Requirements, types: Indices, table: TypeTable) -> Requirements:
    """SCH-12, BestEffort: minValues as far as these types reach it."""
    for wanted in requirements:
        if wanted.min_values is not None:
            reached = max(1, _distinct(wanted, types, table))
            if reached < wanted.min_values:
                requirements = requirements.with_min_values(wanted.key, reached)
    return requirements


def _distinct(wanted: Requirement, types: Indices, table: TypeTable) -> int:
    return sum(map(wanted.has, table.distinct_values(wanted.key, types)))


def _meet(template: PoolTemplate, there: Requirements, pods: PodClass) -> Requirements | Refusal:
    """A machine's requirements with those of a class; host names aside. The pool is asked too: a label that some pod
    on the machine only excludes values of is not defined by that (SCH-10)."""
    taint = first_untolerated(template.pool.taints, pods.pod.tolerations)
    if taint is not None:
        return Refusal(reasons.untolerated(taint.text()), is_final=True)
    incoming = pods.requirements.without(keys.HOSTNAME)
    for known in (there, template.requirements):
        cause = known.incompatibility(incoming, allow_undefined=keys.WELL_KNOWN)
        if cause is not None:
            return Refusal(reasons.incompatible_requirements(cause), is_final=True)
    merged = there.intersect(incoming)
    if keys.ZONE_ID not in merged:
        return merged
    if not template.zone_ids:
        unknown = reasons.zone_ids_unknown(template.pool.node_class)
        return Refusal(unknown, is_final=True)
    return template.host("", merged).pinned(merged)


def _how_many(free: Amounts, request: Amounts) -> Amounts:
    """Per type, how many pods of this size fit; zero where any amount is negative (SCH-62)."""
    asked = request > 0
    if not asked.any():
        return np.where((free >= 0).all(axis=1), np.iinfo(np.int64).max, 0)
    counts: Amounts = (free[:, asked] // request[asked]).min(axis=1)
    return np.where((free >= 0).all(axis=1), counts, 0)
