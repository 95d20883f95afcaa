"""Pods by node, with what is known of the pods of each node, kept from one snapshot to the next.

Between two rounds most nodes of a large cluster keep their pods. Then their list is the same object as before, and what
was worked out from it holds again: the identity of a list says that all of its records are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from shared.domain.workloads.kept import Known, Recent, same
from shared.domain.workloads.pods import ENDED, Pod

T = TypeVar("T")
PodsByNode = Mapping[str, Sequence[Pod]]
"""Node name -> its pods in the snapshot's order; pods without a node have the empty name. Lists are not changed."""

_KEPT = 4
"""So many snapshots' pods are kept whole: those that a round and its simulations read in turn."""

_last = Recent[tuple[tuple[Pod, ...], PodsByNode]](_KEPT)
_uids = Recent[tuple[tuple[Pod, ...], Mapping[str, Pod]]]()
_lists = Known[str, tuple[Sequence[Pod], ...]]()
"""The last two lists of each node: plans read promised pods at their machine, and a pass may not."""


def by_node(pods: tuple[Pod, ...]) -> PodsByNode:
    """All of these pods."""
    for of, known in _last:
        if of is pods:
            return known
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        found[pod.node_name].append(pod)
    _lists.forget_gone(len(found))
    made = {name: _as_before(name, own) for name, own in found.items()}
    _last.add((pods, made))
    return made


def by_uid(pods: tuple[Pod, ...]) -> Mapping[str, Pod]:
    """All of these pods by UID: made once for all who ask about the same snapshot in turn. It is not changed."""
    for of, known in _uids:
        if of is pods:
            return known
    return _uids.add((pods, {pod.uid: pod for pod in pods}))[1]


def _as_before(name: str, pods: Sequence[Pod]) -> Sequence[Pod]:
    before = _lists.get(name, ())
    for known in before:
        if same(known, pods):
            return known
    _lists[name] = (pods, *before[:1])
    return pods


class Noted(Generic[T]):
    """What ``read`` says of the pods of a node: asked once for each list."""

    def __init__(self, read: Callable[[Sequence[Pod]], T]) -> None:
        self._read = read
        self._known = Known[str, tuple[Sequence[Pod], T]]()

    def of(self, pods: PodsByNode) -> Iterator[tuple[str, T]]:
        """Of each node, in the given order. ``pods``: as ``by_node`` has them."""
        known = self._known
        known.forget_gone(len(pods))
        for name, own in pods.items():
            found = known.get(name)
            if found is None or found[0] is not own:
                found = known[name] = own, self._read(own)
            yield name, found[1]

    def one(self, name: str, pods: Sequence[Pod]) -> T:
        """Of one node. ``pods``: the same object while they are the same pods."""
        found = self._known.get(name)
        if found is None or found[0] is not pods:
            found = self._known[name] = pods, self._read(pods)
        return found[1]

    def forget_gone(self, nodes: int) -> None:
        """Where ``one`` is asked. ``nodes``: how many there are."""
        self._known.forget_gone(nodes)

    def all(self, pods: PodsByNode) -> Iterator[T]:
        """As ``of``, without names."""
        return (found for _, found in self.of(pods))


def _staying(pods: Sequence[Pod]) -> Sequence[Pod]:
    return [pod for pod in pods if pod.phase not in ENDED] if any(map(_has_ended, pods)) else pods


def _has_ended(pod: Pod) -> bool:
    return pod.phase in ENDED


_running: Noted[Sequence[Pod]] = Noted(_staying)
_virtual: Noted[bool] = Noted(lambda pods: any(pod.virtual for pod in pods))


def running(pods: tuple[Pod, ...]) -> PodsByNode:
    """Without the pods that have ended, and those without a node."""
    return {name: own for name, own in _running.of(by_node(pods)) if name and own}


def any_virtual(pods: tuple[Pod, ...]) -> bool:
    """Is room kept by some of them?"""
    return any(_virtual.all(by_node(pods)))


def without_node(pods: tuple[Pod, ...]) -> Sequence[Pod]:
    """Those that run nowhere."""
    return by_node(pods).get("", ())
