"""The scheduler's view of nodes and placed pods, updated one change at a time.

Besides sums per node it counts the matching pods per node for each selector that a pending pod uses, so filters never
iterate over all pods. Counters exist as long as a shape that uses them (weak references).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from local.cluster.control_plane.informers import Key, Obj
from local.cluster.scheduling.quantities import Resources, amounts
from local.cluster.scheduling.shapes import (
    AffinityTerm,
    PodInfo,
    PodSelector,
    PodShape,
    compile_shape,
    pod_info,
    shape_key,
)


@dataclass(eq=False, slots=True)
class NodeState:
    """One node with the pods on it. ``version`` changes when labels, taints or the cordon change."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: list[Mapping[str, Any]] = field(default_factory=list)
    unschedulable: bool = False
    exists: bool = False
    version: int = 0
    allocatable: Resources = field(default_factory=dict)
    requested: Resources = field(default_factory=dict)
    scoring_cpu: int = 0
    scoring_memory: int = 0
    pods: dict[Key, PodInfo] = field(default_factory=dict)
    ports: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def add(self, pod: PodInfo, sign: int = 1) -> None:
        """Count a pod's requests and ports; ``sign`` -1 removes them."""
        for resource, value in pod.shape.requests.items():
            self.requested[resource] = self.requested.get(resource, 0) + sign * value
        self.scoring_cpu += sign * pod.shape.scoring[0]
        self.scoring_memory += sign * pod.shape.scoring[1]
        for port in pod.shape.ports:
            self.ports[port] += sign


@dataclass(eq=False, slots=True, weakref_slot=True)
class PodCounter:
    """Matching pods of a selector per node."""

    selector: PodSelector
    per_node: Counter[str] = field(default_factory=Counter)
    verdicts: WeakKeyDictionary[PodShape, bool] = field(default_factory=WeakKeyDictionary)

    def matches(self, shape: PodShape, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether pods of this shape match the selector (cached)."""
        verdict = self.verdicts.get(shape)
        if verdict is None:
            verdict = self.verdicts[shape] = self.selector.matches(shape, namespaces)
        return verdict


class Claimed(Protocol):
    """Constraints by the claims of pods, for volumes or for devices; used only for shapes with such claims."""

    def refusal(self, shape: PodShape) -> str:
        """The reason why no node at all can run the shape; empty when one could."""
        ...

    def checks(self, shape: PodShape) -> list[Callable[[NodeState], str]]:
        """One check per claim, which returns the reason why a node does not fit, or empty."""
        ...


class ClusterState:
    """All nodes, all placed pods, and the counters over them."""

    def __init__(self, volumes: Claimed, devices: Claimed) -> None:
        self.volumes, self.devices = volumes, devices
        self.nodes: dict[str, NodeState] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.nominated: dict[str, dict[Key, PodInfo]] = {}
        self.anti_terms: dict[tuple[str, bytes], tuple[AffinityTerm, Counter[str]]] = {}
        self._placed: dict[Key, str] = {}
        self._priorities: Counter[int] = Counter()
        self._shapes: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._counters: WeakValueDictionary[bytes, PodCounter] = WeakValueDictionary()
        self._counter_users: WeakKeyDictionary[PodShape, list[PodCounter]] = WeakKeyDictionary()

    def info(self, pod: Obj) -> PodInfo:
        """The pod with its shared shape. Raises InvalidObject for a malformed quantity."""
        key = shape_key(pod)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = compile_shape(pod, key)
        return pod_info(pod, shape)

    def existing(self) -> list[NodeState]:
        """The nodes that have a Node object."""
        return [node for node in self.nodes.values() if node.exists]

    def set_node(self, obj: Obj) -> bool:
        """Store a Node object; True when a pending pod may fit because of the change."""
        node = self.nodes.setdefault(obj["metadata"]["name"], NodeState(obj["metadata"]["name"]))
        spec = obj.get("spec") or {}
        labels, taints = obj["metadata"].get("labels") or {}, spec.get("taints") or []
        cordoned = bool(spec.get("unschedulable"))
        allocatable = amounts((obj.get("status") or {}).get("allocatable"))
        fixed = (labels, taints, cordoned, True)
        if fixed == (node.labels, node.taints, node.unschedulable, node.exists):
            if allocatable == node.allocatable:
                return False
        else:
            node.version += 1
        node.labels, node.taints, node.unschedulable, node.exists = fixed
        node.allocatable = allocatable
        return True

    def remove_node(self, name: str) -> None:
        """Remove a Node object; its pods are counted until they are deleted."""
        node = self.nodes.get(name)
        if node is None:
            return
        node.exists = False
        node.version += 1
        if not node.pods:
            del self.nodes[name]

    def place(self, pod: PodInfo, node_name: str) -> bool:
        """Count a pod on a node; False when nothing changed.

        A pod of that name on another node is gone: a backup of etcd that is restored may have an earlier one.
        """
        before = self._placed.get(pod.key)
        if before is not None:
            known = self.nodes[before].pods[pod.key]
            same = known.shape is pod.shape and known.terminating == pod.terminating
            if before == node_name and same:
                return False
            self.remove_pod(pod.key)
        node = self.nodes.setdefault(node_name, NodeState(node_name))
        node.pods[pod.key] = pod
        self._placed[pod.key] = node_name
        self._count(node, pod, 1)
        return True

    def remove_pod(self, key: Key) -> bool:
        """Remove a placed pod; False when it was not placed."""
        node_name = self._placed.pop(key, None)
        if node_name is None:
            return False
        node = self.nodes[node_name]
        self._count(node, node.pods.pop(key), -1)
        if not node.exists and not node.pods:
            del self.nodes[node_name]
        return True

    def counter(self, shape: PodShape, selector: PodSelector) -> PodCounter:
        """The counter of a selector that ``shape`` uses; it exists as long as the shape."""
        counter = self._counters.get(selector.identity)
        if counter is None:
            counter = self._counters[selector.identity] = PodCounter(selector)
            for node, pod in self._all_pods():
                self._count_match(counter, node, pod, 1)
        users = self._counter_users.setdefault(shape, [])
        if counter not in users:
            users.append(counter)
        return counter

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Store a namespace's labels (None: it was deleted); changed labels reset the counters."""
        if self.namespaces.get(name) == labels:
            return
        self.namespaces.pop(name, None)
        if labels is not None:
            self.namespaces[name] = labels
        for counter in list(self._counters.values()):
            if counter.selector.namespace_match is not None:
                counter.verdicts.clear()
                counter.per_node.clear()
                for node, pod in self._all_pods():
                    self._count_match(counter, node, pod, 1)

    def nominate(self, pod: PodInfo) -> None:
        """Reserve the pod's nominated node against pods of lower or equal priority."""
        if pod.shape.nominated:
            self.nominated.setdefault(pod.shape.nominated, {})[pod.key] = pod

    def drop_nomination(self, pod: PodInfo) -> None:
        """Remove the reservation of ``nominate``."""
        held = self.nominated.get(pod.shape.nominated or "")
        if held is not None:
            held.pop(pod.key, None)
            if not held:
                del self.nominated[pod.shape.nominated or ""]

    def has_priority_below(self, priority: int) -> bool:
        """Whether any placed pod has a lower priority than ``priority``."""
        return any(found < priority for found in self._priorities)

    def _all_pods(self) -> Iterator[tuple[NodeState, PodInfo]]:
        for node in self.nodes.values():
            for pod in node.pods.values():
                yield node, pod

    def _count(self, node: NodeState, pod: PodInfo, sign: int) -> None:
        node.add(pod, sign)
        self._priorities[pod.shape.priority] += sign
        if not self._priorities[pod.shape.priority]:
            del self._priorities[pod.shape.priority]
        for counter in list(self._counters.values()):
            self._count_match(counter, node, pod, sign)
        for term in pod.shape.anti_affinity:
            identity = (term.topology_key, term.selector.identity)
            _, holders = self.anti_terms.setdefault(identity, (term, Counter()))
            holders[node.name] += sign
            if holders[node.name] <= 0:
                del holders[node.name]
            if not holders:
                del self.anti_terms[identity]

    def _count_match(self, counter: PodCounter, node: NodeState, pod: PodInfo, sign: int) -> None:
        if counter.selector.skip_terminating and pod.terminating:
            return
        if counter.matches(pod.shape, self.namespaces):
            counter.per_node[node.name] += sign
