"""Planned machines while they take pods: the pods of each, and the instance types that it can still become.

A machine keeps every type that fits its pods so far. Each pod that it takes may remove types; EC2 chooses among the
rest at launch (SCH-35). ``Admitter.admit`` checks in Karpenter's order (SCH-40) and changes nothing: it returns an
``Admission``, which ``OpenMachine.commit`` applies, or a ``Refusal``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from operator import add

import numpy as np

from shared.domain import labels as keys
from shared.domain.expressions import Toleration, first_untolerated
from shared.domain.requirements import Requirement, Requirements
from shared.solver import reasons
from shared.solver.encode import Amounts, Indices, Mask, TypeTable
from shared.solver.placement.relaxation import NO_REQUIREMENTS
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.ports import HostPort, first_conflict
from shared.solver.topology.counting import Refusal, Topology
from shared.solver.topology.hosts import Host

_CacheKey = tuple[Requirements, PoolTemplate, Requirements, tuple[Toleration, ...]]
"""The inputs of ``_merged_requirements``."""


class MinValuesPolicy(StrEnum):
    """BestEffort accepts fewer distinct values when the pool's number cannot be met (SCH-12)."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


STRICT, BEST_EFFORT = MinValuesPolicy


@dataclass(slots=True, eq=False)
class OpenMachine:
    """A planned machine that still takes pods."""

    template: PoolTemplate
    hostname: str
    """A placeholder that hostname rules count by; it is never written to the cluster (SCH-41)."""
    requirements: Requirements
    types: TypeSet
    content: tuple[int, ...]
    """[resources]: the sum of its pods' requests, without daemon overhead."""
    pods: list[str] = field(default_factory=list)
    ports: list[HostPort] = field(default_factory=list)
    _host: Host | None = None

    @classmethod
    def empty(
        cls, template: PoolTemplate, number: int, requirements: Requirements, types: TypeSet
    ) -> OpenMachine:
        """A machine without pods. ``number``: its position among the plan's machines, from 1."""
        content = (0,) * template.available.shape[1]
        return cls(template, f"hostname-placeholder-{number:04d}", requirements, types, content)

    @property
    def used(self) -> Amounts:
        """``content`` as an array."""
        return np.array(self.content, dtype=np.int64)

    def alike(self, number: int) -> OpenMachine:
        """An empty machine of the same pool. ``number``: as for ``empty``."""
        return self.empty(self.template, number, self.template.requirements, self.types)

    def host(self, requirements: Requirements) -> Host:
        """The machine for topology rules, with these requirements."""
        if self._host is None or self._host.requirements is not requirements:
            self._host = self.template.host(self.hostname, requirements)
        return self._host

    def commit(self, admission: Admission, pods: PodClass, uids: list[str]) -> None:
        """Adds the admitted pods."""
        self.requirements = admission.requirements
        self.types = admission.types
        self.content = admission.content
        self.ports += pods.pod.host_ports
        self.pods += uids


@dataclass(slots=True, eq=False)
class Admission:
    """A machine's state after it took ``count`` more pods of one class."""

    count: int
    requirements: Requirements
    types: TypeSet
    content: tuple[int, ...]


class Admitter:
    """Decides whether an open machine can take pods. Merged requirements are cached, since equal ones are frequent."""

    def __init__(self, topology: Topology, *, best_effort: bool = False) -> None:
        """``best_effort``: a new machine may have fewer distinct values than minValues asks for (SCH-12)."""
        self._best_effort = best_effort
        self._topology = topology
        self._merged_cache: dict[_CacheKey, Requirements | Refusal] = {}

    def admit(self, machine: OpenMachine, pods: PodClass, count: int) -> Admission | Refusal:
        """Admits up to ``count`` pods of a class. ``count`` must be 1 for pods with host ports or topology rules."""
        there, template = machine.requirements, machine.template
        is_plain = pods.requirements is NO_REQUIREMENTS and template.is_open
        if is_plain and not there.asks_for_zone_id:
            merged = there
        else:
            found = self._requirements(machine, pods)
            if isinstance(found, Refusal):
                return found
            merged = found
        ports = pods.pod.host_ports
        if ports and (conflict := first_conflict(ports, machine.ports)) is not None:
            return Refusal(reasons.port_conflict(conflict), is_final=True)
        narrowed = merged
        if checks := self._topology.rules(pods).checks:
            allowed = self._topology.narrow(checks, machine.host(merged), merged)
            if isinstance(allowed, Refusal):
                return allowed
            narrowed = allowed
        if narrowed is there and not ports and machine.pods:
            types = machine.types
        else:
            types = self._types(machine, pods, narrowed)
        if count > 1 or narrowed.asks_for_values:
            return self._fill(machine, pods, count, types, narrowed, is_final=narrowed is merged)
        content = tuple(map(add, machine.content, pods.amounts))
        kept = template.sets.large_enough(types, content)
        if not kept.bits:
            return Refusal(reasons.EXCEEDS_NODE, narrowed is merged)
        return Admission(1, narrowed, kept, content)

    def on_empty(self, template: PoolTemplate, pods: PodClass) -> Requirements | Refusal:
        """The requirements of an empty machine of this pool merged with those of a class, host names aside."""
        return self._merged(template, template.requirements, pods)

    def _requirements(self, machine: OpenMachine, pods: PodClass) -> Requirements | Refusal:
        """Merged requirements, after the check of taints and host name."""
        merged = self._merged(machine.template, machine.requirements, pods)
        host = pods.requirements.get(keys.HOSTNAME)
        if host is None or isinstance(merged, Refusal) or host.has(machine.hostname):
            return merged
        there = f"{keys.HOSTNAME} In [{machine.hostname}]"
        cause = reasons.incompatible_requirements(f"key {keys.HOSTNAME}, {host} not in {there}")
        return Refusal(cause, is_final=True)

    def _merged(
        self, template: PoolTemplate, there: Requirements, pods: PodClass
    ) -> Requirements | Refusal:
        """``_merged_requirements``, cached."""
        is_plain = pods.requirements is NO_REQUIREMENTS and template.is_open
        if is_plain and not there.asks_for_zone_id:
            return there
        asked = (there, template, pods.requirements, pods.pod.tolerations)
        found = self._merged_cache.get(asked)
        if found is None:
            found = self._merged_cache[asked] = _merged_requirements(template, there, pods)
        return found

    def _types(self, machine: OpenMachine, pods: PodClass, requirements: Requirements) -> TypeSet:
        """The machine's types that meet the requirements, have an offering, and whose daemons use other ports."""
        template = machine.template
        kept = template.usable(requirements)
        for daemon, with_daemon in template.daemons.daemons if pods.pod.host_ports else ():
            if first_conflict(pods.pod.host_ports, daemon.host_ports) is not None:
                kept = template.sets.of(kept.mask & ~with_daemon)
        return template.sets.intersection(machine.types, kept)

    def _fill(
        self,
        machine: OpenMachine,
        pods: PodClass,
        count: int,
        types: TypeSet,
        requirements: Requirements,
        *,
        is_final: bool,
    ) -> Admission | Refusal:
        """Checks resources, last: how many pods the largest type takes, and which types take that many."""
        rows = types.rows
        capacity = _pods_per_type(machine.template.available[rows] - machine.used, pods.requests)
        placed = min(count, int(capacity.max(initial=0)))
        if placed < 1:
            return Refusal(reasons.EXCEEDS_NODE, is_final)
        if requirements.asks_for_values:
            table = machine.template.table
            if self._best_effort and not machine.pods:
                requirements = lowered_min_values(requirements, rows[capacity >= 1], table)
            placed = _count_meeting_min_values(requirements, rows, capacity, placed, table)
            if placed < 1:
                lacking = unmet_min_values(requirements, rows[capacity >= 1], table)
                return Refusal("; ".join(lacking.values()), is_final)
        kept = machine.template.sets.of_rows(rows[capacity >= placed])
        content = tuple(
            there + placed * more for there, more in zip(machine.content, pods.amounts, strict=True)
        )
        return Admission(placed, requirements, kept, content)

    def _port_of_daemons(self, template: PoolTemplate, pods: PodClass) -> str:
        """The host port conflict with a daemon set's pod, as text; empty when there is none (SCH-40)."""
        for daemon, _ in template.daemons.daemons if pods.pod.host_ports else ():
            conflict = first_conflict(pods.pod.host_ports, daemon.host_ports)
            if conflict is not None:
                return f"{reasons.port_conflict(conflict)} by daemon set {daemon.key}"
        return ""

    def why_no_type(self, machine: OpenMachine, pods: PodClass) -> str:
        """The reason why no type of the pool can run this class alone, in Karpenter's words (SCH-42, SCH-43)."""
        table, template = machine.template.table, machine.template
        merged = machine.requirements.intersect(pods.requirements.without(keys.HOSTNAME))
        merged = machine.host(merged).pinned(merged)
        checks = self._topology.rules(pods).checks
        narrowed = self._topology.narrow(checks, machine.host(merged), merged)
        asked = merged if isinstance(narrowed, Refusal) else narrowed
        zones, capacities = table.zone_mask(asked, template.zones), table.capacity_mask(asked)
        within = template.within_limits()
        matching: Mask = within & table.matching(asked)
        offering: Mask = within & table.with_offering(zones, capacities)
        fitting: Mask = within & (_pods_per_type(template.available, pods.requests) >= 1)
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


def _count_meeting_min_values(
    requirements: Requirements, types: Indices, capacity: Amounts, most: int, table: TypeTable
) -> int:
    """The most pods with which minValues is still met, found by bisection: more pods never leave more types."""
    enough, too_many = 0, most + 1
    while too_many - enough > 1:
        middle = most if too_many > most else (enough + too_many) // 2
        if unmet_min_values(requirements, types[capacity >= middle], table):
            too_many = middle
        else:
            enough = middle
    return enough


def unmet_min_values(
    requirements: Requirements, types: Indices, table: TypeTable
) -> dict[str, str]:
    """Label key -> message, for each key of which these types have fewer values than minValues asks for (SCH-12)."""
    found = {}
    for wanted in requirements:
        if wanted.min_values is not None:
            count = _distinct(wanted, types, table)
            if count < wanted.min_values:
                text = reasons.min_values_unmet(wanted.key, wanted.min_values, count)
                found[wanted.key] = text
    return found


def lowered_min_values(
    requirements: Requirements, types: Indices, table: TypeTable
) -> Requirements:
    """Requirements with each minValues lowered to the number that these types reach (BestEffort, SCH-12)."""
    for wanted in requirements:
        if wanted.min_values is not None:
            reached = max(1, _distinct(wanted, types, table))
            if reached < wanted.min_values:
                requirements = requirements.with_min_values(wanted.key, reached)
    return requirements


def _distinct(wanted: Requirement, types: Indices, table: TypeTable) -> int:
    return sum(map(wanted.has, table.distinct_values(wanted.key, types)))


def _merged_requirements(
    template: PoolTemplate, there: Requirements, pods: PodClass
) -> Requirements | Refusal:
    """A machine's requirements merged with those of a class, host names aside.

    The pool's own requirements are checked too: a pod that only excludes values of a custom label does not define that
    label for the machine (SCH-10).
    """
    taint = first_untolerated(template.pool.taints, pods.pod.tolerations)
    if taint is not None:
        return Refusal(reasons.untolerated(taint.text()), is_final=True)
    incoming = pods.requirements.without(keys.HOSTNAME)
    for known in (there, template.requirements):
        if not known.compatible(incoming, allow_undefined=keys.WELL_KNOWN):
            return Refusal(partial(_incompatible, known, incoming), is_final=True)
    merged = there.intersect(incoming)
    if keys.ZONE_ID not in merged:
        return merged
    if not template.zone_ids:
        unknown = reasons.zone_ids_unknown(template.pool.node_class)
        return Refusal(unknown, is_final=True)
    return template.host("", merged).pinned(merged)


def _incompatible(known: Requirements, incoming: Requirements) -> str:
    """Why they do not go together; most refusals are never shown, so this text is built when it is asked for."""
    cause = known.incompatibility(incoming, allow_undefined=keys.WELL_KNOWN) or ""
    return reasons.incompatible_requirements(cause)


def _pods_per_type(free: Amounts, request: Amounts) -> Amounts:
    """[types]: how many pods of this size fit; zero where any free amount is negative (SCH-62)."""
    asked = request > 0
    if not asked.any():
        return np.where((free >= 0).all(axis=1), np.iinfo(np.int64).max, 0)
    counts: Amounts = (free[:, asked] // request[asked]).min(axis=1)
    return np.where((free >= 0).all(axis=1), counts, 0)
