"""The devices of one node or instance type that claims can still get.

A node has what its ResourceSlices show, without what claims hold. A driver publishes some seconds after its node is
ready: until then the devices count that nodes of the type usually have, or another machine would be bought for the same
pods.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
from msgspec.structs import replace

from shared.domain.devices.records import (
    Counters,
    Device,
    DriverDevices,
    ResourceClaim,
    ResourceSlice,
)

DRIVER_SECONDS = 600.0
"""Age of a node at which a driver that has published nothing will not do so."""

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DeviceId = tuple[str, str, str]
"""(driver, pool, device)."""


class Item(msgspec.Struct, frozen=True):
    """A device and where it is published. Devices of one node in one pool share its counter sets."""

    driver: str
    pool: str
    device: Device


class Inventory(msgspec.Struct, frozen=True):
    """``free``: devices without an owner, shared ones with the capacity that is left. ``held``: those of claims.
    ``counters``: ``driver/pool/set`` -> counter -> what is left."""

    free: tuple[Item, ...] = ()
    held: tuple[Item, ...] = ()
    counters: Counters = {}

    def key(self) -> bytes:
        """Equal for equal inventories."""
        return _ENCODER.encode(self)


NOTHING = Inventory()


def expected(devices: Iterable[DriverDevices]) -> Inventory:
    """The inventory of a new machine."""
    given = list(devices)
    items = [Item(one.driver, "", device) for one in given for device in one.devices]
    counters = {
        counter_set(one.driver, "", name): amounts
        for one in given
        for name, amounts in one.counters.items()
    }
    return Inventory(tuple(items), (), counters)


def counter_set(driver: str, pool: str, name: str) -> str:
    """The key of a counter set in an inventory."""
    return f"{driver}/{pool}/{name}"


@dataclass
class _Use:
    """What claims hold of a device."""

    exclusively: bool = False
    consumed: dict[str, int] = field(default_factory=dict)


class PublishedDevices:
    """The slices of a cluster by node, and what its claims hold."""

    def __init__(self, slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]) -> None:
        self._slices, self._claims = tuple(slices), tuple(claims)

    @cached_property
    def _by_node(self) -> Mapping[str, list[ResourceSlice]]:
        found: dict[str, list[ResourceSlice]] = defaultdict(list)
        for one in complete(self._slices):
            found[one.node_name].append(one)
        return found

    @cached_property
    def _uses(self) -> dict[_DeviceId, _Use]:
        found: dict[_DeviceId, _Use] = defaultdict(_Use)
        for claim in self._claims:
            for one in claim.devices:
                if one.admin:
                    continue
                use = found[one.driver, one.pool, one.device]
                use.exclusively = use.exclusively or not one.consumed
                for name, amount in one.consumed.items():
                    use.consumed[name] = use.consumed.get(name, 0) + amount
        return found

    def counts(self) -> dict[str, tuple[int, int]]:
        """Driver -> (devices that claims hold, at least in part; the others), of complete pools."""
        held: Counter[str] = Counter()
        free: Counter[str] = Counter()
        for one in (one for listed in self._by_node.values() for one in listed):
            for device in one.devices:
                taken = (one.driver, one.pool, device.name) in self._uses
                (held if taken else free)[one.driver] += 1
        return {driver: (held[driver], free[driver]) for driver in sorted({*held, *free})}

    def on(self, node: str, usual: Iterable[DriverDevices] = ()) -> Inventory:
        """The inventory of a node. ``usual``: the devices of drivers that may still publish them."""
        slices = self._by_node.get(node, [])
        published = {one.driver for one in slices}
        coming = expected(one for one in usual if one.driver not in published)
        counters = {
            counter_set(one.driver, one.pool, name): dict(amounts)
            for one in slices
            for name, amounts in one.counters.items()
        }
        free, held = list(coming.free), []
        for item in (Item(one.driver, one.pool, d) for one in slices for d in one.devices):
            left = self._left(item)
            if left is None or left is not item.device:
                held.append(item)
                _consume(counters, item)
            if left is not None:
                free.append(Item(item.driver, item.pool, left))
        return Inventory(tuple(free), tuple(held), {**counters, **coming.counters})

    def _left(self, item: Item) -> Device | None:
        """The device as other claims can have it; None when they cannot."""
        use = self._uses.get((item.driver, item.pool, item.device.name))
        if use is None:
            return item.device
        if use.exclusively or not item.device.shared:
            return None
        capacity = {
            name: max(0, amount - use.consumed.get(name, 0))
            for name, amount in item.device.capacity.items()
        }
        # What the device consumes is consumed already.
        return replace(item.device, capacity=capacity, consumes={})


def complete(slices: Iterable[ResourceSlice]) -> Iterable[ResourceSlice]:
    """Slices of the newest generation of pools of which all are there; Kubernetes allocates from no others."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
    for one in slices:
        pools[one.driver, one.pool].append(one)
    for _, found in sorted(pools.items()):
        newest = max(one.pool_generation for one in found)
        current = [one for one in found if one.pool_generation == newest]
        if len(current) >= max(one.pool_slices for one in current):
            yield from sorted(current, key=lambda one: one.name)


def _consume(counters: Counters, item: Item) -> None:
    for name, amounts in item.device.consumes.items():
        left = counters.get(counter_set(item.driver, item.pool, name), {})
        for counter, amount in amounts.items():
            left[counter] = left.get(counter, 0) - amount
