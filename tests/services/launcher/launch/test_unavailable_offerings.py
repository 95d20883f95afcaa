"""What EC2 has not got is known to everybody for three minutes (LCH-12, LCH-60..63)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from services.launcher.launch.fleet import LaunchRecord
from services.launcher.launch.subnets import SubnetReservations
from services.launcher.launch.unavailable_offerings import CapacityErrors, is_shortage, reasons_of
from shared.cloud.client.errors import CAPACITY_CODES, SPOT_ROLE_MISSING
from shared.cloud.ec2.records import FleetError, FleetInstance, FleetResult, Subnet
from shared.domain import labels as keys
from shared.domain.instance_types.shortages import in_group
from shared.domain.instance_types.types import encode_catalogue
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore, UnavailableOfferings
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.settings import LauncherSettings, read
from tests.support.aws.ice_codes import ICE
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import ZONES, make_catalogue, make_type
from tests.support.redis.elapsing import elapse

FIRST = (keys.SPOT, "m5.large", ZONES[0])
FAILURES = "karpenter_cloudprovider_instance_launch_failures_total"


def error(code: str, zone: str | None = ZONES[0], kind: str = "m5.large") -> FleetError:
    return FleetError(code, "none left", kind, zone, "subnet-a", keys.SPOT)


def record(capacity_type: str = keys.SPOT, **changes: Any) -> LaunchRecord:
    """Asks for m5.large in two zones."""
    overrides = [{"InstanceType": "m5.large", "AvailabilityZone": zone} for zone in ZONES[:2]]
    request = {
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": capacity_type},
        "LaunchTemplateConfigs": [{"Overrides": overrides}],
    }
    return LaunchRecord("lr-1", (), request, 0.0, **changes)


def partly(*errors: FleetError) -> FleetResult:
    """An answer with an instance beside the errors."""
    return FleetResult((FleetInstance("i-1", "m5.large", None, None, "spot", "lt-1"),), errors)


ASKED = {(keys.SPOT, "m5.large", zone) for zone in ZONES[:2]}


@dataclass
class World:
    errors: CapacityErrors
    elsewhere: UnavailableOfferings
    """Another service's view of the same Redis."""


@pytest.fixture
async def world(bus: Bus, clock: FakeClock, metrics: Metrics) -> World:
    catalogue = make_catalogue((make_type(capacity_types=(keys.SPOT, keys.ON_DEMAND)),))
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    settings = read(LauncherSettings, cluster_name="test", aws_region="us-west-2")
    unavailable = UnavailableOfferings(bus.redis, bus.prefix)
    elsewhere = UnavailableOfferings(bus.redis, bus.prefix)
    subnets = SubnetReservations(store, clock, lambda: False)
    history = ShortageHistory(bus.redis, bus.prefix, clock, settings)
    errors = CapacityErrors(unavailable, store, subnets, settings, metrics, history)
    return World(errors, elsewhere)


def test_every_code_is_known() -> None:
    """LCH-60: codes for no capacity."""
    assert set(ICE) == CAPACITY_CODES


@pytest.mark.parametrize("code", ICE)
async def test_each_code_marks_its_offering_for_three_minutes(
    world: World, code: str, bus: Bus, metrics: Metrics
) -> None:
    """LCH-60, LCH-61, ACC-63: one zone of one type, seen by every service."""
    await world.errors.record_fleet(record(), partly(error(code)))
    assert await world.elsewhere.current() == {FIRST}
    labels = {"zone": ZONES[0], "zone_id": "", "capacity_type": "spot", "reason": code}
    assert metrics.registry.get_sample_value(FAILURES, labels) == 1
    await elapse(bus.redis, bus.prefix, 181)
    assert await world.elsewhere.current() == frozenset()


@pytest.mark.parametrize("code", ICE)
async def test_a_call_that_fails_as_a_whole_marks_all_it_asked_for(world: World, code: str) -> None:
    """LCH-60: and so does an error that names no offering."""
    await world.errors.record_call(record(), code)
    assert await world.elsewhere.current() == ASKED


async def test_what_a_placement_group_has_no_room_for_is_unavailable_in_that_group_alone(
    world: World,
) -> None:
    """LCH-61, EC-06: and says nothing about other days."""
    grouped = record(placement_group="pg-1")
    await world.errors.record_fleet(grouped, partly(error(ICE[0])))
    assert await world.elsewhere.current() == {in_group(FIRST, "pg-1")}
    await world.errors.record_call(grouped, ICE[0])
    assert await world.elsewhere.current() == {in_group(one, "pg-1") for one in ASKED}
    assert await world.errors.history.current() == ()


async def test_a_refusal_is_remembered_when_it_has_expired(world: World, clock: FakeClock) -> None:
    await world.errors.record_fleet(record(), partly(error(ICE[0])))
    clock.advance(600)
    assert [offering for offering, _ in await world.errors.history.current()] == [FIRST]


async def test_a_missing_right_is_no_shortage(world: World) -> None:
    """LCH-63: spot comes back at once when the role exists."""
    await world.errors.record_call(record(), SPOT_ROLE_MISSING)
    assert await world.elsewhere.current()
    assert await world.errors.history.current() == ()


async def test_an_error_without_a_zone_is_about_all_that_was_asked_for(world: World) -> None:
    await world.errors.record_fleet(record(), partly(error("UnfulfillableCapacity", zone=None)))
    assert await world.elsewhere.current() == ASKED


async def test_a_call_that_gave_nothing_marks_all_it_asked_for(world: World) -> None:
    """LCH-61: EC2 names some of the pools, but had none of them."""
    await world.errors.record_fleet(record(), FleetResult((), (error(ICE[0]),)))
    assert await world.elsewhere.current() == ASKED


async def test_other_errors_mark_nothing(world: World) -> None:
    """A wrong request is no lack of capacity."""
    await world.errors.record_fleet(record(), FleetResult((), (error("InvalidParameterValue"),)))
    assert await world.elsewhere.current() == frozenset()


async def test_reserved_capacity_that_is_used_up_is_reserved(world: World) -> None:
    """LCH-60: the on-demand offering beside it is still to be had."""
    asked = record(keys.ON_DEMAND, reservations={"lt-1": "cr-1"})
    await world.errors.record_fleet(asked, partly(error("ReservationCapacityExceeded")))
    assert await world.elsewhere.current() == {(keys.RESERVED, "m5.large", ZONES[0])}


async def test_without_the_spot_role_all_of_spot_is_unavailable(world: World) -> None:
    """LCH-63: on-demand is not."""
    await world.errors.record_fleet(record(), partly(error(SPOT_ROLE_MISSING)))
    assert await world.elsewhere.current() == {(keys.SPOT, "m5.large", zone) for zone in ZONES}


async def test_a_full_subnet_comes_last(world: World, clock: FakeClock) -> None:
    """LCH-12: for five minutes, though it says it has more addresses."""
    full, other = Subnet("subnet-a", ZONES[0], "az1", 100), Subnet("subnet-b", ZONES[0], "az1", 5)
    subnets = world.errors.subnets
    assert subnets.choose([full, other]) == {ZONES[0]: "subnet-a"}
    await world.errors.record_fleet(record(), partly(error("InsufficientFreeAddressesInSubnet")))
    assert subnets.choose([full, other]) == {ZONES[0]: "subnet-b"}
    clock.advance(301)
    assert subnets.choose([full, other]) == {ZONES[0]: "subnet-a"}


def test_only_a_lack_of_capacity_ends_a_machine() -> None:
    """LCH-64, LCH-65: one other error among them and it is tried again."""
    assert is_shortage([error(code) for code in ICE])
    assert not is_shortage([error(ICE[0]), error("InvalidParameterValue")])
    assert not is_shortage([]), "nobody said what is wrong"


def test_reasons_are_told_once() -> None:
    assert (
        reasons_of([error("A"), error("A", ZONES[1]), error("B")]) == "A: none left; B: none left"
    )
