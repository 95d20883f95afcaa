"""Pool templates: requirements, usable instance types, daemon overhead and remaining limits of each pool.

``usable_templates`` returns the usable pools in order of preference (NP-22), and the reasons why the others are not
usable, as users read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from shared.domain import labels as keys
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import (
    NodeClass,
    NodePool,
    by_preference,
    named_labels,
    pool_requirements,
)
from shared.domain.pools.usage import NODES, USUAL, Counting, full_zones, spread_room, usage
from shared.domain.requirements import DOES_NOT_EXIST, Requirement, Requirements
from shared.domain.resources import Resources, add, at_least
from shared.domain.snapshot import Snapshot
from shared.errors import InvalidObject
from shared.solver import reasons
from shared.solver.encode import LARGEST, Amounts, Indices, Mask, TypeTable
from shared.solver.pools.daemons import DaemonLoad, load_on_new_nodes
from shared.solver.pools.type_sets import TypeSet, TypeSets
from shared.solver.topology.hosts import Host


@dataclass(slots=True, eq=False)
class PoolTemplate:
    """One usable pool. ``available`` is [types, resources]: allocatable minus daemon overhead."""

    pool: NodePool
    table: TypeTable
    """The instance types, with the sizes that this pool's machines get."""
    requirements: Requirements
    types: Indices
    """Types that meet the pool's requirements and have an offering in its zones."""
    zones: Mask
    zone_names: frozenset[str]
    daemons: DaemonLoad
    available: Amounts
    overhead: dict[str, int]
    remaining: dict[str, int] | None
    """Limits minus usage, in the resources that are limited; None without limits (SCH-100)."""
    zone_ids: Mapping[str, str] = field(default_factory=dict)
    """Zone -> zone id, as far as the subnets have one."""
    group_limits_nodes: bool = False
    """The number of nodes that remain is what a spread placement group takes."""
    node_price: int = 0
    """What one more machine counts beside its price, in micro-USD per hour."""
    sets: TypeSets = field(init=False)
    all_types: TypeSet = field(init=False)
    """``types`` as a set."""
    is_open: bool = field(init=False)
    """True without taints: no toleration is needed."""
    _usable: dict[Requirements, TypeSet] = field(default_factory=dict)
    _within: Mask | None = None

    def __post_init__(self) -> None:
        self.sets = TypeSets(np.ascontiguousarray(self.available.T))
        self.all_types = self.sets.of_rows(self.types)
        self.is_open = not self.pool.taints

    def usable(self, requirements: Requirements) -> TypeSet:
        """The types that meet the requirements and have an available offering within them."""
        found = self._usable.get(requirements)
        if found is None:
            zones = self.table.zone_mask(requirements, self.zones)
            offered = self.table.with_offering(zones, self.table.capacity_mask(requirements))
            found = self.sets.of(self.table.matching(requirements) & offered)
            self._usable[requirements] = found
        return found

    def host(self, name: str, requirements: Requirements) -> Host:
        """A machine of this pool for topology rules."""
        return Host(name, requirements, True, self.zone_names, self.pool.taints, self.zone_ids)

    def within_limits(self) -> Mask:
        """[types]: the type's whole capacity is within the remaining limits (SCH-101)."""
        if self._within is None:
            self._within = np.ones(len(self.table.types), dtype=np.bool_)
            for name, left in sorted((self.remaining or {}).items()):
                if name != NODES:
                    self._within &= self.table.capacity(name) <= min(left, LARGEST)
        return self._within

    @property
    def nodes_exhausted(self) -> bool:
        return self.remaining is not None and self.remaining.get(NODES, 1) < 1

    def why_exhausted(self) -> str:
        """Why there is no further node (SCH-101, EC-06)."""
        full = reasons.group_is_full if self.group_limits_nodes else reasons.node_limit_exhausted
        return full(self.pool)

    def count_new_machine(self, types: TypeSet) -> None:
        """Takes a new machine off the limits, with the largest capacity among its types (SCH-100)."""
        if self.remaining is None:
            return
        largest: dict[str, int] = {NODES: 1}
        for index in types.rows.tolist():
            largest = at_least(largest, self.table.types[index].capacity)
        self._within = None
        for name in self.remaining:
            self.remaining[name] -= largest.get(name, 0)


def usable_templates(
    snapshot: Snapshot, table: TypeTable, counting: Counting = USUAL
) -> tuple[list[PoolTemplate], list[str]]:
    """Templates in order of preference, and the reasons why the other pools cannot be used."""
    classes = {node_class.key: node_class for node_class in snapshot.node_classes}
    templates, refusals = [], []
    for pool in by_preference(list(snapshot.pools)):
        node_class = classes.get(pool.node_class_key)
        lacking = snapshot.catalogue.lacking.get(pool.node_class_key, "")
        cause = _unusable(pool, node_class) or lacking
        try:
            found = (
                None
                if cause or not node_class
                else _template(pool, node_class, snapshot, table, counting)
            )
        except InvalidObject as error:
            cause, found = str(error), None
        if found is not None and found.types.size == 0:
            cause = reasons.no_types_meet(pool, found.requirements.without(*named_labels(pool)))
        if found is None or cause:
            refusals.append(reasons.pool_unusable(pool, cause))
        else:
            templates.append(found)
    return templates, refusals


def _unusable(pool: NodePool, node_class: NodeClass | None) -> str:
    if pool.terminating:
        return "it is being deleted"
    if pool.fault:
        return f"its condition Ready is False: {pool.fault}"
    if pool.closed:
        return pool.closed
    if pool.is_static:
        return "it is static: it keeps its replicas, whatever pods need"
    if node_class is None:
        return f'node class "{pool.node_class}" not found'
    if node_class.terminating:
        return f'node class "{node_class.name}" is being deleted'
    if not node_class.ready:
        why = f": {node_class.fault}" if node_class.fault else ""
        return f'node class "{node_class.name}" is not ready{why}'
    return ""


def _template(
    pool: NodePool,
    node_class: NodeClass,
    snapshot: Snapshot,
    table: TypeTable,
    counting: Counting,
) -> PoolTemplate:
    requirements = pool_requirements(pool)
    table = table.sized(SizeSettings.of(pool, node_class), pool.key)
    _refuse_contradictions(pool, requirements)
    zone_ids = {subnet.zone: subnet.zone_id for subnet in node_class.subnets if subnet.zone_id}
    if keys.ZONE_ID in requirements and not zone_ids:
        raise InvalidObject(reasons.zone_ids_unknown(node_class.name), field="spec.requirements")
    full = full_zones(node_class, snapshot.machines)
    reachable = {s.zone for s in node_class.subnets if _allows_zone_id(requirements, s.zone_id)}
    zones = table.zone_mask(requirements) & np.array(
        [z in reachable and z not in full for z in table.zones], np.bool_
    )
    capacities = table.capacity_mask(requirements)
    offered = table.offered[:, zones][:, :, capacities].any(axis=(1, 2))
    types = np.flatnonzero(table.matching(requirements) & offered)
    daemons = load_on_new_nodes(snapshot.daemon_sets, pool.taints, requirements, table)
    zone_names = frozenset(z for z, ok in zip(table.zones, zones, strict=True) if ok)
    remaining = _remaining(pool, snapshot, table, counting)
    room = spread_room(node_class, snapshot.machines, zone_names)
    in_group = room is not None and room < (remaining or {}).get(NODES, room + 1)
    return PoolTemplate(
        pool=pool,
        table=table,
        requirements=requirements,
        types=types,
        zones=zones,
        zone_names=zone_names,
        daemons=daemons,
        available=table.allocatable - daemons.overhead,
        overhead=daemons.total(),
        remaining={**(remaining or {}), NODES: room or 0} if in_group else remaining,
        zone_ids=zone_ids,
        group_limits_nodes=in_group,
    )


def _refuse_contradictions(pool: NodePool, requirements: Requirements) -> None:
    absent = {keys.normalise(e.key) for e in pool.requirements if e.operator == DOES_NOT_EXIST}
    for requirement in requirements:
        if requirement.is_empty and requirement.key not in absent:
            raise InvalidObject(reasons.contradictory(requirement.key), field="spec.requirements")


def _allows_zone_id(requirements: Requirements, zone_id: str) -> bool:
    wanted = requirements.get(keys.ZONE_ID)
    return wanted is None or wanted.has(zone_id)


def _remaining(
    pool: NodePool, snapshot: Snapshot, table: TypeTable, counting: Counting
) -> dict[str, int] | None:
    if not pool.limits:
        return None
    used = _usage(pool, snapshot, table, counting)
    return {name: limit - used.get(name, 0) for name, limit in pool.limits.items()}


def _usage(
    pool: NodePool, snapshot: Snapshot, table: TypeTable, counting: Counting
) -> dict[str, int]:
    """The capacity of the pool's machines and of its nodes without a machine.

    It is summed from the snapshot, because ``status.resources`` may not include the newest machines. Terminating nodes
    do not count.
    """
    machines = [m for m in snapshot.machines if m.pool_key == pool.key]
    known = {m.provider_id for m in machines if m.provider_id}
    used = usage(((m, m.capacity or _largest(m, table)) for m in machines), counting)
    for node in snapshot.nodes:
        if node.pool_key == pool.key and node.provider_id not in known and not node.terminating:
            used = add(used, node.capacity, {NODES: 1})
    return used


def _largest(machine: Machine, table: TypeTable) -> Resources:
    """The largest capacity among the types of a machine that is not launched yet."""
    largest: dict[str, int] = {}
    for expression in machine.requirements:
        if keys.normalise(expression.key) == keys.INSTANCE_TYPE and expression.operator == "In":
            for name in expression.values:
                if name in table.index:
                    largest = at_least(largest, table.types[table.index[name]].capacity)
    return largest


def domain_sources(
    templates: Iterable[PoolTemplate], nodes: Iterable[Host], key: str
) -> Iterator[tuple[Host, Iterable[str]]]:
    """The domains of a topology key: those that each pool can create, and each node's own (SCH-71)."""
    for template in templates:
        yield (
            template.host(template.pool.name, template.requirements),
            domains_of(template, key),
        )
    for node in nodes:
        label = node.requirements.get(key)
        if label is not None:
            yield node, label.values


def domains_of(template: PoolTemplate, key: str) -> set[str]:
    """The values of a topology key that machines of this pool can have (SCH-71)."""
    if key == keys.ZONE:
        return set(template.zone_names)
    if key == keys.ZONE_ID:
        return {template.zone_ids[z] for z in template.zone_names if z in template.zone_ids}
    allowed = template.requirements.get(key) or Requirement(key, complement=True)
    values = template.table.distinct_values(key, template.types)
    if allowed.complement:
        return {value for value in values if allowed.has(value)}
    return {value for value in allowed.values if not values or value in values}
