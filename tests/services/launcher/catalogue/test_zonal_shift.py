"""A zone that the cluster is shifted away from gets nothing new (IT-04, GAT-03)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.catalogue.zonal_shift import PERIOD_SECONDS, UNAVAILABLE_SECONDS, ZonalShifts
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue, encode_catalogue
from shared.kube.client import Kube
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore, UnavailableOfferings
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from tests.services.conftest import Control, create_pool
from tests.services.launcher.conftest import with_settings
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import ZONES
from tests.support.redis.elapsing import elapse

Start = Callable[..., ZonalShifts]


@pytest.fixture
async def unavailable(bus: Bus, clock: FakeClock, catalogue: Catalogue) -> UnavailableOfferings:
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    return UnavailableOfferings(bus.redis, bus.prefix)


@pytest.fixture
def shifts(ports: Ports, unavailable: UnavailableOfferings) -> Start:
    """``shifts(enabled=…)``."""

    def start(*, enabled: bool = True) -> ZonalShifts:
        bus, of = ports.bus, with_settings(ports, enable_zonal_shift=enabled)
        store = CatalogueStore(bus.redis, bus.prefix)
        shifted = ShiftedZones(bus.redis, bus.prefix, ports.clock)
        return ZonalShifts(of, NodeClasses(of).cluster, store, unavailable, shifted)

    return start


async def test_a_shifted_zone_is_passed_over_until_the_shift_ends(
    shifts: Start,
    kube: Kube,
    control: Control,
    bus: Bus,
    clock: FakeClock,
    unavailable: UnavailableOfferings,
    events: Any,
) -> None:
    """GAT-03: every type and capacity type there, and an event on each pool when it begins and when it ends."""
    await create_pool(kube)
    checking = shifts()
    await checking.check()
    assert await unavailable.current() == frozenset()
    control.post("zonal-shift", zone=ZONES[0])
    for _ in range(4):
        await checking.check()
        clock.advance(PERIOD_SECONDS)
        await elapse(bus.redis, bus.prefix, PERIOD_SECONDS)
    assert await checking.published.current() == {ZONES[0]}, "for who tags and ends instances"
    found = await unavailable.current()
    assert {(kind, name) for kind, name, _ in found} == {
        (kind, name)
        for kind in (keys.ON_DEMAND, keys.RESERVED)
        for name in ("m5.large", "m5.xlarge")
    }
    assert {zone for _, _, zone in found} == {ZONES[0]}
    control.post("zonal-shift", zone=ZONES[0], active=False)
    await checking.check()
    clock.advance(UNAVAILABLE_SECONDS)
    await elapse(bus.redis, bus.prefix, UNAVAILABLE_SECONDS)
    await checking.check()
    assert await unavailable.current() == frozenset()
    assert await events() == [("ZonalShiftActive", "default"), ("ZonalShiftCleared", "default")]


async def test_a_silent_aws_ends_no_shift(
    shifts: Start, bus: Bus, control: Control, clock: FakeClock, unavailable: UnavailableOfferings
) -> None:
    """A zone that fails may take the API's answers along."""
    control.post("zonal-shift", zone=ZONES[1])
    checking = shifts()
    await checking.check()
    control.post(
        "faults", action="GetManagedResource", code="AccessDeniedException", status=403, count=1
    )
    clock.advance(UNAVAILABLE_SECONDS)
    await elapse(bus.redis, bus.prefix, UNAVAILABLE_SECONDS)
    await checking.check()
    assert {zone for _, _, zone in await unavailable.current()} == {ZONES[1]}


async def test_without_the_setting_nobody_asks(
    shifts: Start, control: Control, unavailable: UnavailableOfferings
) -> None:
    """OPS-03: ENABLE_ZONAL_SHIFT is false by default."""
    control.post("zonal-shift", zone=ZONES[0])
    await shifts(enabled=False).check()
    assert await unavailable.current() == frozenset()
    assert not [c for c in control.get("calls")["calls"] if c["service"] == "arc-zonal-shift"]
