"""Volume constraints of pods for the scheduler (kube-scheduler's VolumeBinding): the nodes that their volumes allow.

Claims that wait for their first pod are bound here, directly before the pod. A node takes no more volumes of a driver
than its CSINode allows (NodeVolumeLimits).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from local.cluster.control_plane.informers import Obj
from local.cluster.scheduling.shapes import PodShape
from local.cluster.scheduling.state import NodeState
from local.cluster.storage.store import Store
from local.cluster.volumes.attaching import Attachment, attachments_of, limits_of
from local.cluster.volumes.binding import class_of, free_volume, makes_volumes, provide, waits
from local.cluster.volumes.places import class_allows, reaches

CONFLICT = "node(s) had volume node affinity conflict"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
TOO_MANY = "node(s) exceed max volume count"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NodeCheck = Callable[[NodeState], str]


class PodVolumes:
    """The constraints by the current claims of pods."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def refusal(self, shape: PodShape) -> str:
        """The reason why no node at all can run pods of this shape; empty when one could."""
        for name in shape.claims:
            claim = self._claim(shape, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim["metadata"].get("deletionTimestamp"):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if not _is_bound(claim) and not waits(class_of(self._store, claim)):
                return UNBOUND
        return ""

    def checks(self, shape: PodShape) -> list[NodeCheck]:
        """One check of the attach limits and one per claim; ``refusal`` must have been empty."""
        claims = (self._claim(shape, name) for name in shape.claims)
        places = [self._check(claim) for claim in claims if claim is not None]
        return [self._limit_check(shape), *places]

    def _limit_check(self, shape: PodShape) -> NodeCheck:
        needed = self._attachments(shape)

        def check(node: NodeState) -> str:
            limits = limits_of(self._store, node.name)
            if not limits.keys() & {one.driver for one in needed}:
                return ""
            here = {one for pod in node.pods.values() for one in self._attachments(pod.shape)}
            counts = Counter(one.driver for one in here | needed)
            fresh = {one.driver for one in needed - here}
            return TOO_MANY if any(counts[d] > limits.get(d, counts[d]) for d in fresh) else ""

        return check

    def _attachments(self, shape: PodShape) -> set[Attachment]:
        return attachments_of(self._store, shape.namespace, shape.claims)

    def bind(self, shape: PodShape, node: NodeState) -> None:
        """Bind the claims that wait for the first pod, whose node is known now. Raises ApiError."""
        for claim in self._waiting(shape):
            storage_class = class_of(self._store, claim)
            if storage_class is not None:
                provide(self._store, claim, storage_class, node.labels, node.name)

    def _waiting(self, shape: PodShape) -> Iterator[Obj]:
        for name in shape.claims:
            claim = self._claim(shape, name)
            if claim is not None and not _is_bound(claim):
                yield claim

    def _claim(self, shape: PodShape, name: str) -> Obj | None:
        return self._store.find("persistentvolumeclaims", name, namespace=shape.namespace)

    def _check(self, claim: Obj) -> NodeCheck:
        if _is_bound(claim):
            volume = self._store.find("persistentvolumes", claim["spec"]["volumeName"])
            reached = reaches(volume) if volume else lambda _labels, _name: False
            return lambda node: "" if reached(node.labels, node.name) else CONFLICT
        storage_class = class_of(self._store, claim) or {}

        def check(node: NodeState) -> str:
            if makes_volumes(storage_class) and class_allows(storage_class, node.labels):
                return ""
            found = free_volume(self._store, claim, node.labels, node.name)
            return "" if found else NOTHING_TO_BIND

        return check


def _is_bound(claim: Obj) -> bool:
    return bool(claim["spec"].get("volumeName"))
