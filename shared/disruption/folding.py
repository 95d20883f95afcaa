"""Folding for simulations: pods that only use resources on their node are replaced by one pod with their sum.

A disruption pass simulates many times, each time without other machines, and nearly all pods stay on their nodes in all
simulations. The planner reads only the requests of most of these pods: no rule selects them, and they have no rule,
host port or volume. Their sum gives exactly the same plan. What may go wrong: the planner starts to read another field
of a bound pod; then ``_is_plain`` must check that field. A property test compares plans of folded and of whole
clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec
from msgspec.structs import replace

from shared.domain.resources import sum_of
from shared.domain.snapshot import Snapshot, moving_pods
from shared.domain.workloads.by_node import by_node
from shared.domain.workloads.kept import Known, same
from shared.domain.workloads.pods import Pod
from shared.solver.pod_classes import effective_requests
from shared.solver.topology.namespaces import with_namespaces
from shared.solver.topology.selectors import (
    Selector,
    affinity_selector,
    label_keys,
    spread_selector,
)

_FOLDED = "folded"
_ENCODER = msgspec.msgpack.Encoder()


class FoldedPods(msgspec.Struct, frozen=True):
    """The pods of one snapshot by node name; pods without a node have the empty name."""

    snapshot: Snapshot
    """When folded, affinity terms list their namespaces, since namespaces of folded pods are lost."""
    whole: Mapping[str, Sequence[Pod]]
    folded: Mapping[str, Sequence[Pod]]
    moving: frozenset[str]
    """UIDs of pods on terminating machines (POD-09); they are not folded."""

    def without(self, names: Set[str]) -> Snapshot:
        """The snapshot for a simulation in which the pods of these nodes move."""
        pods = [
            pod
            for name, folded in self.folded.items()
            for pod in (self.whole[name] if name in names else folded)
        ]
        return replace(self.snapshot, pods=tuple(pods))


class Folding:
    """Folds a snapshot once for all simulations of one pass. Copies of a ``World`` share it."""

    __slots__ = ("_found", "_is_folded", "_of")

    def __init__(self) -> None:
        self._of: Snapshot | None = None
        self._found: FoldedPods | None = None
        self._is_folded = False

    def pods_of(self, snapshot: Snapshot, *, keep_whole: bool = False) -> FoldedPods:
        """The pods of a snapshot, folded from the second call on.

        The first simulation is often the only one, and folding costs about as much as it saves there. ``keep_whole``:
        never fold, because the planner adds rules to pods (default spread constraints, SCH-85).
        """
        if self._found is None or self._of is not snapshot:
            self._of, self._found, self._is_folded = snapshot, _whole(snapshot), keep_whole
        elif not self._is_folded:
            self._found, self._is_folded = fold(snapshot), True
        return self._found


def _whole(snapshot: Snapshot) -> FoldedPods:
    pods = by_node(snapshot.pods)
    return FoldedPods(snapshot, pods, pods, moving_pods(snapshot))


def fold(snapshot: Snapshot) -> FoldedPods:
    """Replaces plain pods by one pod per node; the pods of terminating machines stay as they are."""
    snapshot = with_namespaces(snapshot)
    moving = moving_pods(snapshot)
    whole = by_node(snapshot.pods)
    _sums.forget_gone(len(whole))
    rules = _Rules(snapshot.pods)
    folded = {name: _folded(name, pods, rules, moving) for name, pods in whole.items()}
    return FoldedPods(snapshot, whole, folded, moving)


def _folded(name: str, pods: Sequence[Pod], rules: _Rules, moving: frozenset[str]) -> Sequence[Pod]:
    if not name or (moving and any(pod.uid in moving for pod in pods)):
        return pods
    kept: list[Pod] = []
    plain: list[Pod] = []
    for pod in pods:
        (plain if _is_plain(pod) and not rules.select(pod) else kept).append(pod)
    return [*kept, _sum(name, plain)] if plain else kept


def _is_plain(pod: Pod) -> bool:
    """Does the planner read only the pod's requests? Not for daemon pods: the newest one sets its daemon set's requests
    (SCH-46). Virtual pods move in every simulation, those of a gang count for pods of it that wait, and a promised pod
    may not have its devices yet."""
    special = pod.anti_affinity or pod.host_ports or pod.volume_claims or pod.virtual or pod.gang
    return not (special or pod.device_claims or pod.is_daemon or pod.is_terminal)


_sums = Known[str, tuple[Sequence[Pod], Pod]]()
"""Node name -> the pods that were folded last, and their sum: from pass to pass most nodes keep their pods."""


def _sum(name: str, pods: Sequence[Pod]) -> Pod:
    """One pod with the sum of all requests. It is terminating, so that no topology rule counts it."""
    known = _sums.get(name)
    if known is not None and same(known[0], pods):
        return known[1]
    found = _new_sum(name, pods)
    _sums[name] = pods, found
    return found


def _new_sum(name: str, pods: Sequence[Pod]) -> Pod:
    return Pod(
        uid=f"{_FOLDED}/{name}",
        namespace="",
        name=_FOLDED,
        node_name=name,
        requests=sum_of(effective_requests(pod.requests) for pod in pods),
        phase="Running",
        terminating=True,
    )


class _Rules:
    """The selectors of all pods' rules."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_label: dict[tuple[str, str], list[Selector]] = defaultdict(list)
        self._others: list[Selector] = []
        self._known: dict[tuple[str | None, ...], bool] = {}
        keys: set[str] = set()
        seen: set[Selector] = set()
        for pod in _with_different_rules(pods):
            keys |= label_keys([pod])
            found = {spread_selector(pod, one) for one in pod.spread}
            found |= {affinity_selector(pod, term) for term in (*pod.affinity, *pod.anti_affinity)}
            for selector in found - seen:
                self._add(selector)
            seen |= found
        self._keys = sorted(keys)

    def _add(self, selector: Selector) -> None:
        if selector.labels:
            self._by_label[selector.labels[0]].append(selector)
        else:
            self._others.append(selector)

    def select(self, pod: Pod) -> bool:
        """Does any selector select this pod?"""
        labels = pod.labels
        at = pod.namespace, *map(labels.get, self._keys)
        if at not in self._known:
            some = (self._by_label.get(item, ()) for item in labels.items())
            selectors = [*self._others, *(selector for found in some for selector in found)]
            self._known[at] = any(one.selects(pod.namespace, labels) for one in selectors)
        return self._known[at]


def _with_different_rules(pods: Iterable[Pod]) -> Iterable[Pod]:
    """One pod of each distinct set of rules, including the own label values that matchLabelKeys adds."""
    seen: set[bytes] = set()
    for pod in pods:
        if not (pod.spread or pod.affinity or pod.anti_affinity):
            continue
        own = [pod.labels.get(key) for one in pod.spread for key in one.match_label_keys]
        rules = _ENCODER.encode((pod.namespace, pod.spread, pod.affinity, pod.anti_affinity, own))
        if rules not in seen:
            seen.add(rules)
            yield pod
