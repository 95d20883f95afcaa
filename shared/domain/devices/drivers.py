"""The drivers whose devices the pods of a new machine use, as the machine names them (DRA-07).

A machine with such drivers is initialised once each of them has published a complete pool on its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from shared.domain.devices.demands import Claims, Predicate
from shared.domain.devices.extended import with_claims
from shared.domain.devices.inventory import complete, expected
from shared.domain.devices.matching import Shape
from shared.domain.devices.records import ResourceSlice
from shared.domain.devices.templates import devices_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject


class RequestedDrivers:
    """Of machines that are planned from one snapshot; nothing is computed for pods without claims."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._given = snapshot
        self._shapes: dict[str, Shape] = {}

    @cached_property
    def _snapshot(self) -> Snapshot:
        return with_claims(self._given)

    @cached_property
    def _pods(self) -> dict[str, Pod]:
        return {pod.uid: pod for pod in self._snapshot.pods if pod.device_claims}

    @cached_property
    def _claims(self) -> Claims:
        found = self._snapshot
        return Claims(found.resource_claims, found.claim_templates, found.device_classes)

    def of(self, pods: Iterable[str], instance_type: str) -> list[str]:
        """Names, sorted. ``pods``: UIDs."""
        if not self._given.device_classes:
            return []
        known = [self._pods[uid] for uid in pods if uid in self._pods]
        found = {name for pod in known for name in self._of_pod(pod, instance_type)}
        return sorted(found)

    def _of_pod(self, pod: Pod, instance_type: str) -> set[str]:
        """Those of the first alternative for which the type has devices."""
        try:
            ways = self._claims.alternatives(pod, settled=False, without=frozenset())
        except InvalidObject:
            return set()
        shape = self._shape(instance_type)
        for way in ways:
            found = [_drivers(shape, ask.predicate) for ask in way.asks]
            if all(found):
                return set().union(*found)
        return set()

    def _shape(self, instance_type: str) -> Shape:
        if instance_type not in self._shapes:
            kinds = (one for one in self._given.catalogue.types if one.name == instance_type)
            templates = self._given.device_templates
            devices = [one for kind in kinds for one in devices_of(kind, templates)]
            self._shapes[instance_type] = Shape(expected(devices))
        return self._shapes[instance_type]


def _drivers(shape: Shape, predicate: Predicate) -> set[str]:
    return {shape.inventory.free[at].driver for at in shape.suiting(predicate)}


def unpublished(drivers: Iterable[str], slices: Iterable[ResourceSlice], node: str) -> str:
    """The first of these drivers without a complete pool on the node; empty when there is none."""
    published = {one.driver for one in complete(slices) if one.node_name == node}
    return next((name for name in drivers if name not in published), "")
