"""DRA drivers to play with: they publish the devices of ready nodes as ResourceSlices.

The devices of an instance type are those that the planner expects of it, with what only a node knows besides: the uuids
of GPUs. A node's slices belong to it, so they go with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from local.cluster.builtin.resources import DEVICE_GROUP
from local.cluster.control_plane.conditions import find_condition
from local.cluster.control_plane.informers import Informers, Key, Obj, find, key_of
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store
from shared.api.hardware.device_templates import parse_device_template
from shared.concurrency.clock import Clock, parse_rfc3339
from shared.domain.devices.families import GPU_DRIVER
from shared.domain.devices.records import Counters, Device, DeviceTemplate, DriverDevices
from shared.domain.devices.templates import devices_of
from shared.domain.instance_types.types import InstanceType

SLICES = "resourceslices"
TEMPLATES, TEMPLATE_GROUP = "devicetemplates", "dovetail.sh"
TYPE_LABEL = "node.kubernetes.io/instance-type"


@cache
def _types() -> Mapping[str, InstanceType]:
    """The types of the bundled catalogue by name."""
    # Imported with the first node: the catalogue takes a moment to decode.
    from shared.cloud.catalogue.bundled import bundled_catalogue

    return {kind.name: kind for kind in bundled_catalogue().types}


class DeviceDrivers(Controller):
    """The named drivers on all nodes. Keys are nodes."""

    name, plural = "device-drivers", "nodes"

    def __init__(self, store: Store, clock: Clock, drivers: frozenset[str], seconds: float) -> None:
        """``seconds``: from a node's being ready to its slices."""
        super().__init__(store)
        self._clock, self._drivers, self._seconds = clock, drivers, seconds

    def register(self, informers: Informers) -> None:
        """Watch nodes."""
        informers.on(self.plural, self._on_node)

    def _on_node(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if self._drivers and event_type != "DELETED":
            self.queue.add(key_of(obj))

    async def reconcile(self, key: Key) -> float | None:
        """Publish the devices of one node, once it has been ready for long enough."""
        node = find(self._store, "nodes", key)
        ready = find_condition(node, "Ready") if node is not None else None
        if node is None or ready is None or ready["status"] != "True":
            return None
        stamp = ready.get("lastTransitionTime") or node["metadata"]["creationTimestamp"]
        since = parse_rfc3339(stamp)
        if (left := since + self._seconds - self._clock.now()) > 0:
            return left
        kind = (node["metadata"].get("labels") or {}).get(TYPE_LABEL, "")
        found = _types().get(kind)
        for one in devices_of(found, self._templates()) if found is not None else ():
            if one.driver in self._drivers:
                self._publish(node, one)
        return None

    def _templates(self) -> list[DeviceTemplate]:
        """The DeviceTemplates, as far as the cluster knows the kind."""
        if not any(one.plural == TEMPLATES for one in self._store.served()):
            return []
        read = map(parse_device_template, self._store.list(TEMPLATES, group=TEMPLATE_GROUP))
        return [parsed.record for parsed in read if parsed.record is not None]

    def _publish(self, node: Obj, devices: DriverDevices) -> None:
        body = resource_slice(node, devices)
        name = body["metadata"]["name"]
        there = self._store.find(SLICES, name, group=DEVICE_GROUP)
        if there is None:
            self._store.create(SLICES, body, group=DEVICE_GROUP)


def resource_slice(node: Obj, devices: DriverDevices) -> Obj:
    """The slice that a driver publishes for a node, which owns it."""
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
    counters = _counters(devices.counters, "name")
    shown = [_device(one, devices.driver, meta["uid"]) for one in devices.devices]
    return {
        "apiVersion": f"{DEVICE_GROUP}/v1",
        "kind": "ResourceSlice",
        "metadata": {
            # By the node's uid too: a new node may have the name of one whose slice is not collected yet.
            "name": f"{meta['name']}-{devices.driver}-{meta['uid'][:8]}",
            "ownerReferences": [owner],
        },
        "spec": {
            "driver": devices.driver,
            "nodeName": meta["name"],
            "pool": {"name": meta["name"], "generation": 1, "resourceSliceCount": 1},
            "devices": shown,
            **({"sharedCounters": counters} if counters else {}),
        },
    }


def _device(device: Device, driver: str, node_uid: str) -> dict[str, Any]:
    attributes = {name: _attribute(value) for name, value in device.attributes.items()}
    attributes |= {name: {"version": value} for name, value in device.versions.items()}
    if driver == GPU_DRIVER:
        attributes[f"{driver}/uuid"] = {"string": f"GPU-{node_uid}-{device.name}"}
    capacity = {name: {"value": str(amount)} for name, amount in device.capacity.items()}
    shown: dict[str, Any] = {
        "name": device.name,
        "attributes": attributes,
        "capacity": capacity,
    }
    if device.consumes:
        shown["consumesCounters"] = _counters(device.consumes, "counterSet")
    if device.shared:
        shown["allowMultipleAllocations"] = True
    return shown


def _counters(sets: Counters, name: str) -> list[dict[str, Any]]:
    return [
        {name: one, "counters": {key: {"value": str(n)} for key, n in amounts.items()}}
        for one, amounts in sets.items()
    ]


def _attribute(value: bool | int | str) -> dict[str, Any]:
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}
