"""Capacity that is there or on its way: nodes, and machines that have no node yet (SCH-50..53).

A machine that is not launched counts as the cheapest type of its list. What was promised to it is
not subtracted: those pods are still pending and are placed on it again by this very plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.machines.machine import INITIALIZED as MACHINE_INITIALIZED
from shared.domain.machines.machine import Machine
from shared.domain.nodes import DaemonSet, Node, is_ephemeral
from shared.domain.pools.nodepools import NodeClass
from shared.domain.requirements import Requirement, Requirements
from shared.domain.resources import Resources, add, subtract, sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject
from shared.solver.encode import NO_PRICE, Amounts, Indices, TypeTable
from shared.solver.pod_classes import effective_requests
from shared.solver.pools.daemons import DaemonLoad, load_on_new_nodes, remaining_on_node
from shared.solver.ports import HostPort
from shared.solver.topology.hosts import Host
from shared.solver.volumes.reach import Attachments, Volumes

MOST_NODES = 8192
"""Whose labels are remembered between plans: about 4 kB each."""


@dataclass(slots=True, eq=False)
class ExistingTarget:
    """A node, or a machine on its way to become one, with the room that is left."""

    name: str
    host: Host
    taints: tuple[Taint, ...]
    room: Amounts
    initialized: bool
    ports: list[HostPort] = field(default_factory=list)
    attachments: Attachments = field(default_factory=Attachments)
    kinds: Kinds | None = None
    """What a machine without a node may become; None for a node, whose labels say it all."""

    @property
    def labels(self) -> Requirements:
        return self.host.requirements

    def suits(self, wanted: Requirements) -> bool:
        """SCH-09: strict. A machine whose value is still open must suit the pod in every case."""
        return all(map(self._always_meets, wanted))

    def possible(self, key: str) -> tuple[Requirement | None, OpenLabel | None]:
        """What is known of a label: its requirement, and what the types leave open of it."""
        known = self.labels.get(key)
        decided = known is not None and not known.complement
        return known, None if decided or self.kinds is None else self.kinds.label(key, known)

    def _always_meets(self, wanted: Requirement) -> bool:
        known, left_open = self.possible(wanted.key)
        if left_open is not None:
            may_lack = left_open.may_lack and not wanted.accepts_absence
            return not may_lack and all(map(wanted.has, left_open.values))
        if known is None or known.accepts_absence:
            return wanted.accepts_absence and (self.kinds is None or wanted.key != keys.ZONE_ID)
        return wanted.covers(known)


class OpenLabel(NamedTuple):
    """The values that a label may get, and whether it may be missing."""

    values: frozenset[str]
    may_lack: bool


@dataclass(frozen=True, eq=False)
class Kinds:
    """The instance types that a machine may become."""

    table: TypeTable
    types: Indices

    def label(self, key: str, known: Requirement | None) -> OpenLabel | None:
        """Of the values that ``known`` allows; None when no type has an answer."""
        found = self.table.distinct_values(key, self.types)
        values = frozenset(v for v in found if known is None or known.has(v))
        lacking = known is None or known.accepts_absence
        may_lack = lacking and self.table.may_lack(key, self.types)
        return OpenLabel(values, may_lack) if values else None


def existing_targets(
    snapshot: Snapshot, table: TypeTable, bound: Mapping[str, list[Pod]], volumes: Volumes
) -> list[ExistingTarget]:
    """SCH-32 (a): initialised first, then by name. ``bound``: node name -> pods that stay there."""
    by_provider = {m.provider_id: m for m in snapshot.machines if m.provider_id}
    by_node = {m.node_name: m for m in snapshot.machines if m.node_name}
    found, with_node = [], set()
    for node in snapshot.nodes:
        machine = by_provider.get(node.provider_id) or by_node.get(node.name)
        leaving = _is_leaving(node, machine)
        if machine is not None and not (leaving or _is_registered(node, machine)):
            continue  # its labels and taints are still to come: the machine tells more than the node
        if machine is not None:
            with_node.add(machine.uid)
        if not leaving:
            pods = bound.get(node.name, [])
            target = _node_target(node, machine, pods, snapshot.daemon_sets, table)
            target.attachments = volumes.attachments(node.name, pods)
            found.append(target)
    classes = {node_class.key: node_class for node_class in snapshot.node_classes}
    coming = (m for m in snapshot.machines if m.uid not in with_node and not m.terminating)
    names = {node.provider_id: node.name for node in snapshot.nodes if node.provider_id}
    found += _machine_targets(coming, classes, snapshot.daemon_sets, table, bound, names)
    return sorted(found, key=lambda target: (not target.initialized, target.name))


def _is_leaving(node: Node, machine: Machine | None) -> bool:
    """SCH-53; a cordoned node takes no pods either."""
    leaving = node.terminating or node.unschedulable
    return leaving or (machine is not None and machine.terminating)


def _node_target(
    node: Node,
    machine: Machine | None,
    pods: list[Pod],
    daemon_sets: tuple[DaemonSet, ...],
    table: TypeTable,
) -> ExistingTarget:
    initialized = _is_initialized(node, machine)
    taints = node.taints if initialized else _lasting(node.taints, machine)
    labels = node_labels(node)
    used = sum_of(effective_requests(pod.requests) for pod in pods)
    daemons = sum_of(effective_requests(pod.requests) for pod in pods if pod.is_daemon)
    coming = remaining_on_node(daemon_sets, taints, labels, daemons, joining=not initialized)
    room = subtract(_allocatable(node, machine, initialized), add(used, coming))
    return ExistingTarget(
        name=node.name,
        host=Host(host_name(node), labels, taints=node.taints),
        taints=taints,
        room=table.axis.vector(room),
        initialized=initialized,
        ports=[port for pod in pods for port in pod.host_ports],
    )


def _is_registered(node: Node, machine: Machine) -> bool:
    """LCH-73: does the node carry what its machine has decided? The machine names it from then on."""
    marked = node.is_registered or node.is_initialized
    return marked or machine.node_name == node.name


def _is_initialized(node: Node, machine: Machine | None) -> bool:
    if not node.is_managed:
        return True
    return node.is_initialized or (machine is not None and machine.has(MACHINE_INITIALIZED))


def _lasting(taints: tuple[Taint, ...], machine: Machine | None) -> tuple[Taint, ...]:
    """SCH-52: without the taints that go away while the node comes up."""
    startup = machine.startup_taints if machine else ()
    return tuple(t for t in taints if not is_ephemeral(t) and t not in startup)


def _allocatable(node: Node, machine: Machine | None, initialized: bool) -> Resources:
    """SCH-51: what the node still reports as zero is taken from the machine until initialised."""
    if initialized or machine is None:
        return node.allocatable
    reported = {name: amount for name, amount in node.allocatable.items() if amount}
    return {**machine.allocatable, **reported}


def host_name(node: Node) -> str:
    """The value of the hostname label, or the node's name without one."""
    return node.labels.get(keys.HOSTNAME, node.name)


def node_labels(node: Node) -> Requirements:
    """A node's labels as requirements of one value each."""
    return _of_labels(frozenset({**node.labels, keys.HOSTNAME: host_name(node)}.items()))


@lru_cache(MOST_NODES)
def _of_labels(labels: frozenset[tuple[str, str]]) -> Requirements:
    """Read once: nodes rarely change their labels, and a look at the cluster plans it many times."""
    return Requirements.of(labels=dict(labels))


def _machine_targets(
    machines: Iterable[Machine],
    classes: Mapping[str, NodeClass],
    daemon_sets: tuple[DaemonSet, ...],
    table: TypeTable,
    bound: Mapping[str, list[Pod]],
    names: Mapping[str, str],
) -> list[ExistingTarget]:
    """None for a machine of which nothing is known that could tell its size. One that is not launched yet gets the size
    that its kubelet's settings and its class leave to pods. Machines of one plan are alike: what was found for one
    serves the others. ``names``: provider id -> node.
    """
    known: dict[_Likeness, Becoming | None] = {}
    found = []
    for machine in machines:
        likeness = _likeness(machine)
        if likeness not in known:
            node_class = classes.get(machine.node_class_key)
            known[likeness] = _becoming(machine, node_class, daemon_sets, table)
        becoming = known[likeness]
        if becoming is not None and (becoming.index is not None or machine.allocatable):
            node = machine.node_name or names.get(machine.provider_id, "")
            pods = [pod for name in {node, machine.name} for pod in bound.get(name, ())]
            found.append(_machine_target(machine, becoming, pods))
    return found


_Likeness = tuple[tuple[Expression, ...], frozenset[tuple[str, str]], tuple[Taint, ...], bytes, str]


def _likeness(machine: Machine) -> _Likeness:
    """Equal for machines that may become the same nodes."""
    return (
        machine.requirements,
        frozenset(machine.labels.items()),
        machine.taints,
        msgspec.json.encode(machine.kubelet),
        machine.node_class_key,
    )


@dataclass(frozen=True, eq=False)
class Becoming:
    """What machines that are alike have in common, without a host name. ``index``: the type to count with, if known."""

    labels: Requirements
    table: TypeTable
    index: int | None
    load: DaemonLoad
    taints: tuple[Taint, ...]
    kinds: Kinds | None


def _becoming(
    machine: Machine,
    node_class: NodeClass | None,
    daemon_sets: tuple[DaemonSet, ...],
    table: TypeTable,
) -> Becoming | None:
    """None for one with requirements that contradict each other."""
    try:
        labels = Requirements.of(machine.requirements, machine.labels)
        if node_class is not None:
            table = table.sized(SizeSettings.of(machine, node_class))
    except InvalidObject:
        return None
    taints = tuple(t for t in machine.taints if not is_ephemeral(t))
    return Becoming(
        labels=labels.without(keys.HOSTNAME),
        table=table,
        index=_type_of(machine, labels, table),
        load=load_on_new_nodes(daemon_sets, taints, labels, table),
        taints=taints,
        kinds=_kinds(machine, labels, table),
    )


def _machine_target(machine: Machine, becoming: Becoming, pods: list[Pod]) -> ExistingTarget:
    """``pods``: that are promised or nominated to it. Daemon pods that run there already are in the overhead."""
    index, load, table = becoming.index, becoming.load, becoming.table
    known = machine.allocatable
    allocatable = table.axis.vector(known) if known else table.allocatable[index]
    overhead = load.overhead[index] if index is not None else table.axis.vector(load.total())
    name = machine.node_name or machine.name
    named = becoming.labels.intersect(Requirements.of(labels={keys.HOSTNAME: name}))
    own = [pod for pod in pods if not pod.is_daemon]
    used = table.axis.vector(sum_of(effective_requests(pod.requests) for pod in own))
    return ExistingTarget(
        name,
        Host(name, named, taints=machine.taints),
        becoming.taints,
        allocatable - overhead - used,
        False,
        [
            *(port for daemon, _ in load.daemons for port in daemon.host_ports),
            *(port for pod in own for port in pod.host_ports),
        ],
        kinds=becoming.kinds,
    )


def _kinds(machine: Machine, labels: Requirements, table: TypeTable) -> Kinds | None:
    """The launched type, those of the list, or without one all that its requirements allow."""
    if machine.instance_type:
        known = table.index.get(machine.instance_type)
        return None if known is None else Kinds(table, np.array([known], dtype=np.intp))
    return Kinds(table, np.flatnonzero(table.matching(labels)))


def _type_of(machine: Machine, labels: Requirements, table: TypeTable) -> int | None:
    """The launched type, or the cheapest of the list; the first by name of equals."""
    if machine.instance_type:
        return table.index.get(machine.instance_type)
    allowed = labels.get(keys.INSTANCE_TYPE)
    if allowed is None or allowed.complement:
        return None
    zones, capacities = table.zone_mask(labels), table.capacity_mask(labels)
    known = sorted(table.index[name] for name in allowed.values if name in table.index)
    prices = table.price[:, zones][:, :, capacities].min(axis=(1, 2), initial=NO_PRICE)
    return min(known, key=lambda i: (int(prices[i]), i), default=None)


def group_by_node(pods: tuple[Pod, ...], moved: frozenset[str]) -> dict[str, list[Pod]]:
    """Pods that occupy a node and stay there; ``moved`` are UIDs that this plan places anew."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node_name and not pod.is_terminal and pod.uid not in moved:
            found[pod.node_name].append(pod)
    return found
