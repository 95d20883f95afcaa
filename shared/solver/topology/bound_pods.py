"""Running pods by what topology rules read of them, counted by host; kept from one plan to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shared.domain.workloads.by_node import PodsByNode
from shared.domain.workloads.kept import Known, Recent, same
from shared.domain.workloads.pods import Pod
from shared.solver.topology.hosts import Host

BoundPods = dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, int]]
"""(namespace, selected labels) -> host name -> number of pods (SCH-72)."""


def bound_pods(bound: PodsByNode, hosts: dict[str, Host], selected: frozenset[str]) -> BoundPods:
    """Running pods counted by host name, grouped by namespace and the labels that selectors read (SCH-72)."""
    read = tuple(sorted(selected))
    if not read:
        return {}
    _kinds.forget_gone(len(hosts))
    own = {name: _kinds_on(name, pods, read) for name, pods in bound.items() if name in hosts}
    known = next((one for one in _counted if one.read == read), _Counted(read, {}, {}))
    found = _recounted(known, own)
    _counted.add(_Counted(read, own, found), instead_of=known)
    return found


_Kinds = dict[tuple[str, tuple[tuple[str, str], ...]], int]
_kinds = Known[str, tuple[tuple[Sequence[Pod], tuple[str, ...], _Kinds], ...]]()
"""Node name -> its pods, the label keys that were read, and what was counted: the last two, as most nodes keep their
pods, and plans for pods that wait read other keys than those of removals."""


def _kinds_on(name: str, pods: Sequence[Pod], read: tuple[str, ...]) -> _Kinds:
    before = _kinds.get(name, ())
    for known in before:
        if known[1] == read and same(known[0], pods):
            return known[2]
    found: _Kinds = {}
    for pod in pods:
        if not pod.terminating:
            own = pod.labels
            alike = pod.namespace, tuple([(key, own[key]) for key in read if key in own])
            found[alike] = found.get(alike, 0) + 1
    _kinds[name] = ((pods, read, found), *before[:1])
    return found


class _Counted(NamedTuple):
    """What one call of ``bound_pods`` found: from one plan to the next few nodes change."""

    read: tuple[str, ...]
    by_node: dict[str, _Kinds]
    found: BoundPods


_counted = Recent[_Counted](2)
"""For the last two sets of label keys. Nothing of it is changed."""


def _recounted(known: _Counted, own: dict[str, _Kinds]) -> BoundPods:
    """What was known, with the nodes whose kinds of pods are others."""
    before, found, copied = known.by_node, dict(known.found), set()
    changed = [name for name, kinds in own.items() if before.get(name) is not kinds]
    gone = [name for name in before if own.get(name) is not before[name]]
    for alike in {alike for name in gone for alike in before[name]}:
        copied.add(alike)
        found[alike] = dict(found[alike])
    for name in gone:
        for alike in before[name]:
            del found[alike][name]
    for name in changed:
        for alike, number in own[name].items():
            if alike not in copied:
                copied.add(alike)
                found[alike] = dict(found.get(alike, ()))
            found[alike][name] = number
    return {alike: hosts for alike, hosts in found.items() if hosts}
