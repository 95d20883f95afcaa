"""Existing capacity: nodes, and machines that have no node yet (SCH-50..53).

A machine that is not launched counts as the cheapest type of its list. The pods that an earlier plan placed on it are
not subtracted: they are still pending, and this plan places them on it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint, Toleration, first_untolerated
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.machines.machine import Machine
from shared.domain.nodes import DaemonSet, Node, is_ephemeral
from shared.domain.pools.nodepools import NodeClass
from shared.domain.requirements import Requirement, Requirements
from shared.domain.resources import sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import Noted, PodsByNode, running
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject
from shared.solver.encode import NO_PRICE, Amounts, Indices, TypeTable
from shared.solver.placement.known_nodes import NodeState, state_of
from shared.solver.pod_classes import effective_requests
from shared.solver.pools.daemons import DaemonLoad, load_on_new_nodes
from shared.solver.ports import HostPort
from shared.solver.topology.hosts import Host
from shared.solver.volumes.attachments import Attachments
from shared.solver.volumes.reach import Volumes

MAX_CACHED_LABEL_SETS = 8192
"""Label sets that stay parsed between plans; each takes about 4 kB."""


@dataclass(slots=True, eq=False)
class ExistingTarget:
    """A node, or a machine without a node, with its free resources."""

    name: str
    host: Host
    taints: tuple[Taint, ...]
    room: Amounts
    initialized: bool
    ports: list[HostPort] = field(default_factory=list)
    attachments: Attachments = field(default_factory=Attachments)
    possible_types: PossibleTypes | None = None
    """The types that a machine without a node may become; None for a node, whose labels are final."""

    @property
    def labels(self) -> Requirements:
        return self.host.requirements

    def suits(self, wanted: Requirements) -> bool:
        """Strict compatibility (SCH-09): where a machine may get several values of a label, each must be allowed."""
        return all(map(self._always_meets, wanted))

    def allows(self, wanted: Requirements, tolerations: tuple[Toleration, ...]) -> bool:
        """Do its taints and labels allow a pod with these requirements and tolerations?"""
        return first_untolerated(self.taints, tolerations) is None and self.suits(wanted)

    def possible(self, key: str) -> tuple[Requirement | None, PossibleValues | None]:
        """The requirement on a label, and the values that the machine's types may still give it."""
        known = self.labels.get(key)
        decided = known is not None and not known.complement
        return known, None if decided or self.possible_types is None else self.possible_types.label(
            key, known
        )

    def _always_meets(self, wanted: Requirement) -> bool:
        known, open_values = self.possible(wanted.key)
        if open_values is not None:
            may_lack = open_values.may_lack and not wanted.accepts_absence
            return not may_lack and all(map(wanted.has, open_values.values))
        if known is None or known.accepts_absence:
            return wanted.accepts_absence and (
                self.possible_types is None or wanted.key != keys.ZONE_ID
            )
        return wanted.covers(known)


class PossibleValues(NamedTuple):
    """The values that a label may get, and whether the label may be missing."""

    values: frozenset[str]
    may_lack: bool


@dataclass(frozen=True, eq=False)
class PossibleTypes:
    """The instance types that a machine may become."""

    table: TypeTable
    types: Indices

    def label(self, key: str, known: Requirement | None) -> PossibleValues | None:
        """The types' values of a label that ``known`` allows; None when no type has any."""
        found = self.table.distinct_values(key, self.types)
        values = frozenset(v for v in found if known is None or known.has(v))
        lacking = known is None or known.accepts_absence
        may_lack = lacking and self.table.may_lack(key, self.types)
        return PossibleValues(values, may_lack) if values else None


def existing_targets(
    snapshot: Snapshot, table: TypeTable, bound: PodsByNode, volumes: Volumes
) -> list[ExistingTarget]:
    """Placement targets, initialised ones first, then by name (SCH-32). ``bound``: node name -> pods that stay."""
    by_provider = {m.provider_id: m for m in snapshot.machines if m.provider_id}
    by_node = {m.node_name: m for m in snapshot.machines if m.node_name}
    found, with_node = [], set()
    for node in snapshot.nodes:
        machine = by_provider.get(node.provider_id) or by_node.get(node.name)
        closed = _takes_no_pods(node, machine)
        if machine is not None and not (closed or _is_registered(node, machine)):
            continue  # the node lacks labels and taints until it is registered, so the machine is the target
        if machine is not None:
            with_node.add(machine.uid)
        if not closed:
            pods = bound.get(node.name, ())
            state = state_of(node, machine, pods, snapshot.daemon_sets)
            attachments = volumes.attachments(node.name, pods)
            found.append(_node_target(node.name, state, table, attachments))
    classes = {node_class.key: node_class for node_class in snapshot.node_classes}
    coming = (m for m in snapshot.machines if m.uid not in with_node and not m.terminating)
    names = {node.provider_id: node.name for node in snapshot.nodes if node.provider_id}
    found += _machine_targets(coming, classes, snapshot.daemon_sets, table, bound, names)
    return sorted(found, key=lambda target: (not target.initialized, target.name))


def _node_target(
    name: str, state: NodeState, table: TypeTable, attachments: Attachments
) -> ExistingTarget:
    return ExistingTarget(
        name=name,
        host=state.host,
        taints=state.taints,
        room=state.room_in(table.axis),
        initialized=state.initialized,
        ports=[*state.ports],
        attachments=attachments,
    )


def _takes_no_pods(node: Node, machine: Machine | None) -> bool:
    """True for a terminating node or machine (SCH-53) and for a cordoned node."""
    closed = node.terminating or node.unschedulable
    return closed or (machine is not None and machine.terminating)


def _is_registered(node: Node, machine: Machine) -> bool:
    """Does the node have its machine's labels and taints? The machine names its node from then on (LCH-73)."""
    return node.is_registered or node.is_initialized or machine.node_name == node.name


def _machine_targets(
    machines: Iterable[Machine],
    classes: Mapping[str, NodeClass],
    daemon_sets: tuple[DaemonSet, ...],
    table: TypeTable,
    bound: PodsByNode,
    names: Mapping[str, str],
) -> list[ExistingTarget]:
    """Targets for machines without a node; a machine of unknown size is left out.

    A machine that is not launched gets the size that its kubelet settings and node class leave to pods. Machines of
    one plan are mostly equal, so each distinct one is worked out once. ``names``: provider id -> node name.
    """
    known: dict[_NodeKey, ExpectedNode | None] = {}
    found = []
    for machine in machines:
        key = _node_key(machine)
        if key not in known:
            node_class = classes.get(machine.node_class_key)
            known[key] = _expected_node(machine, node_class, daemon_sets, table)
        expected = known[key]
        if expected is not None and (expected.index is not None or machine.allocatable):
            node = machine.node_name or names.get(machine.provider_id, "")
            pods = [
                pod for name in dict.fromkeys((node, machine.name)) for pod in bound.get(name, ())
            ]
            found.append(_machine_target(machine, expected, pods))
    return found


_NodeKey = tuple[tuple[Expression, ...], frozenset[tuple[str, str]], tuple[Taint, ...], bytes, str]


def _node_key(machine: Machine) -> _NodeKey:
    """A cache key: machines with equal keys may become the same nodes."""
    return (
        machine.requirements,
        frozenset(machine.labels.items()),
        machine.taints,
        msgspec.json.encode(machine.kubelet),
        machine.node_class_key,
    )


@dataclass(frozen=True, eq=False)
class ExpectedNode:
    """The future node of machines with equal keys, without a host name. ``index``: the type that is assumed, if any."""

    labels: Requirements
    table: TypeTable
    index: int | None
    load: DaemonLoad
    taints: tuple[Taint, ...]
    possible_types: PossibleTypes | None


def _expected_node(
    machine: Machine,
    node_class: NodeClass | None,
    daemon_sets: tuple[DaemonSet, ...],
    table: TypeTable,
) -> ExpectedNode | None:
    """None for a machine with invalid requirements."""
    try:
        labels = Requirements.of(machine.requirements, machine.labels)
        if node_class is not None:
            table = table.sized(SizeSettings.of(machine, node_class), machine.pool_key)
    except InvalidObject:
        return None
    taints = tuple(t for t in machine.taints if not is_ephemeral(t))
    return ExpectedNode(
        labels=labels.without(keys.HOSTNAME),
        table=table,
        index=_type_of(machine, labels, table),
        load=load_on_new_nodes(daemon_sets, taints, labels, table),
        taints=taints,
        possible_types=_possible_types(machine, labels, table),
    )


def _machine_target(
    machine: Machine, expected: ExpectedNode, pods: Sequence[Pod]
) -> ExistingTarget:
    """``pods``: the pods bound to the machine's node. Its daemon pods are part of the overhead already."""
    index, load, table = expected.index, expected.load, expected.table
    known = machine.allocatable
    allocatable = table.axis.vector(known) if known else table.allocatable[index]
    overhead = load.overhead[index] if index is not None else table.axis.vector(load.total())
    name = machine.node_name or machine.name
    named = expected.labels.intersect(Requirements.of(labels={keys.HOSTNAME: name}))
    own = [pod for pod in pods if not pod.is_daemon]
    used = table.axis.vector(sum_of(effective_requests(pod.requests) for pod in own))
    held_ports = [*(daemon.host_ports for daemon, _ in load.daemons), *(p.host_ports for p in own)]
    return ExistingTarget(
        name,
        Host(name, named, taints=machine.taints),
        expected.taints,
        allocatable - overhead - used,
        False,
        [port for ports in held_ports for port in ports],
        possible_types=expected.possible_types,
    )


def _possible_types(
    machine: Machine, labels: Requirements, table: TypeTable
) -> PossibleTypes | None:
    """The launched type, or every type that the machine's requirements allow."""
    if machine.instance_type:
        known = table.index.get(machine.instance_type)
        return None if known is None else PossibleTypes(table, np.array([known], dtype=np.intp))
    return PossibleTypes(table, np.flatnonzero(table.matching(labels)))


def _type_of(machine: Machine, labels: Requirements, table: TypeTable) -> int | None:
    """The launched type, or the cheapest type of the list; equal prices go by name."""
    if machine.instance_type:
        return table.index.get(machine.instance_type)
    allowed = labels.get(keys.INSTANCE_TYPE)
    if allowed is None or allowed.complement:
        return None
    zones, capacities = table.zone_mask(labels), table.capacity_mask(labels)
    known = sorted(table.index[name] for name in allowed.values if name in table.index)
    prices = table.price[:, zones][:, :, capacities].min(axis=(1, 2), initial=NO_PRICE)
    return min(known, key=lambda i: (int(prices[i]), i), default=None)


def anti_affine(bound: PodsByNode) -> list[Pod]:
    """The pods whose anti-affinity may exclude others, in order. ``bound``: of ``group_by_node``."""
    return [*chain.from_iterable(_anti_affine.all(bound))]


_anti_affine = Noted(
    lambda pods: [pod for pod in pods if pod.anti_affinity and not pod.terminating]
)


def group_by_node(pods: tuple[Pod, ...], moved: frozenset[str]) -> PodsByNode:
    """Pods by the node that they stay on; ``moved``: UIDs of the pods that this plan places again."""
    found = running(pods)
    left = {pod.node_name for pod in pods if pod.uid in moved} if moved else set()
    if not left:
        return found
    return {
        name: [pod for pod in own if pod.uid not in moved] if name in left else own
        for name, own in found.items()
    }
