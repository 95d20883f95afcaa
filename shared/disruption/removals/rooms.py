"""How many pods of one kind each ready node has room for at most. Pure.

Nothing but room, node selector and required node affinity is looked at, so a node may in truth take fewer pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shared.domain.nodes import Node
from shared.domain.requirements import Requirement, Requirements
from shared.domain.resources import CPU, MEMORY, PODS, sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import Noted, running
from shared.domain.workloads.kept import Known, same
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.recommendations import created_anew
from shared.errors import InvalidObject
from shared.solver.encode import Amounts, Mask, ResourceAxis
from shared.solver.placement.known_nodes import host_of
from shared.solver.placement.relaxation import NO_REQUIREMENTS, strict_requirements
from shared.solver.pod_classes import effective_requests
from shared.solver.topology.hosts import Host

AXIS = ResourceAxis([{CPU: 0, MEMORY: 0, PODS: 0}])
"""Other resources are not looked at."""
_MANY = 2**31


class Kind(NamedTuple):
    """Pods that differ in nothing that is looked at."""

    amounts: tuple[int, ...]
    """In the columns of ``AXIS``."""
    wanted: Requirements


def kind_of(pod: Pod) -> Kind:
    """As the pod will be where it moves."""
    requests = effective_requests(created_anew(pod).requests)
    return Kind(tuple(requests.get(name, 0) for name in AXIS.names), _wanted(pod))


def _wanted(pod: Pod) -> Requirements:
    """Of several required terms any one is enough, so they exclude nothing for certain."""
    try:
        if len(pod.required_terms) <= 1:
            return strict_requirements(pod)
        return Requirements.of(labels=pod.node_selector)
    except InvalidObject:
        return NO_REQUIREMENTS


class _Known(NamedTuple):
    node: Node
    pods: Sequence[Pod]
    room: Amounts


_known = Known[str, _Known]()
"""Node name -> its room, with the records from which it was worked out: what did not change is the same object."""


class Rooms:
    """The nodes of one snapshot that are ready and open. ``places``: node name -> its place in arrays."""

    def __init__(self, snapshot: Snapshot) -> None:
        pods = dict(_staying.of(running(snapshot.pods)))
        _known.forget_gone(len(snapshot.nodes))
        nodes = [node for node in snapshot.nodes if is_ready(node) and not _is_closed(node)]
        self.places = {node.name: at for at, node in enumerate(nodes)}
        rooms = [_room(node, pods.get(node.name, ())) for node in nodes]
        shape = (len(rooms), len(AXIS.names))
        self._rooms = np.array(rooms, dtype=np.int64).reshape(shape).T
        self._hosts = [host_of(node) for node in nodes]
        self._slots: dict[Kind, Amounts] = {}
        self._allowed: dict[Requirement, Mask] = {}

    def slots(self, kind: Kind) -> Amounts:
        """[nodes + 1]: how many such pods each node has room for, and the sum."""
        found = self._slots.get(kind)
        if found is None:
            amounts = np.array(kind.amounts, dtype=np.int64)
            read = amounts > 0
            each = self._rooms[read] // amounts[read][:, np.newaxis]
            least = each.min(axis=0, initial=_MANY)
            for wanted in kind.wanted:
                least = np.where(self._allowing(wanted), least, 0)
            found = self._slots[kind] = np.append(least, least.sum())
        return found

    def _allowing(self, wanted: Requirement) -> Mask:
        """[nodes]: the node's label allows pods with this requirement, by the planner's rule (SCH-09)."""
        found = self._allowed.get(wanted)
        if found is None:
            known: dict[str, bool] = {}
            rows = [_allows(host, wanted, known) for host in self._hosts]
            found = self._allowed[wanted] = np.array(rows, dtype=np.bool_)
        return found


def _allows(host: Host, wanted: Requirement, known: dict[str, bool]) -> bool:
    """``known``: value of the label -> verdict."""
    place = host.decided(wanted.key)
    if place:
        if place[0] not in known:
            known[place[0]] = wanted.has(place[0])
        return known[place[0]]
    label = host.requirements.get(wanted.key)
    if label is None or label.accepts_absence:
        return wanted.accepts_absence
    return wanted.covers(label)


def is_ready(node: Node) -> bool:
    """A removal whose pods would go to another node is refused (CON-03)."""
    return node.is_initialized or not node.is_managed


def _is_closed(node: Node) -> bool:
    return node.terminating or node.unschedulable


def _real(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Virtual pods move in every simulation, so their room may be free."""
    return [pod for pod in pods if not pod.virtual] if any(pod.virtual for pod in pods) else pods


_staying = Noted(_real)


def _room(node: Node, pods: Sequence[Pod]) -> Amounts:
    """Never below zero. Daemon pods that are still to come are not subtracted."""
    known = _known.get(node.name)
    if known is not None and known.node is node and same(known.pods, pods):
        return known.room
    used = sum_of(effective_requests(pod.requests) for pod in pods)
    room: Amounts = np.maximum(AXIS.vector(node.allocatable) - AXIS.vector(used), 0)
    _known[node.name] = _Known(node, pods, room)
    return room
