"""What EC2 may answer to a launch, code by code (LCH-25, 60, 64, 66), and how a shortage ends (ACC-62)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from services.launcher.launch.controller import LaunchController
from shared.cloud.client.errors import CAPACITY_CODES
from shared.domain import labels as keys
from shared.kube.resources import LAUNCH_RECORDS, MACHINES
from shared.redis.bus import RetryLater
from tests.services.conftest import create_machine
from tests.services.launcher.crash_world import FORGETFUL, CrashWorld, crashes
from tests.services.launcher.mortal import Life
from tests.support.aws.ice_codes import ICE
from tests.support.planning.builders import ZONES
from tests.support.redis.elapsing import elapse

__all__ = ["crashes"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_FOUND = (
    "InvalidInstanceID.NotFound",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
    "InvalidCapacityReservationId.NotFound",
    "QueueDoesNotExist",
    "NoSuchEntity",
    "ParameterNotFound",
)
"""LCH-66, as the behaviour spec lists them."""


@pytest_asyncio.fixture(loop_scope="module")
async def world(crashes: CrashWorld) -> CrashWorld:
    """One machine waits: m-a."""
    await crashes.empty()
    await create_machine(crashes.kube, "m-a")
    return crashes


@pytest.fixture
def launch(world: CrashWorld) -> LaunchController:
    return world.incarnation(Life())


async def stored(world: CrashWorld, name: str = "m-a") -> dict[str, Any]:
    return await world.kube.get(MACHINES, name)


def calls(world: CrashWorld) -> int:
    return len(world.control.get("calls?action=CreateFleet")["calls"])


async def is_given_up(world: CrashWorld, name: str = "m-a") -> bool:
    """It goes, and nothing of its launch is left."""
    gone = "deletionTimestamp" in (await stored(world, name))["metadata"]
    return gone and world.started() == [] and await world.records() == []


async def test_the_table_is_complete() -> None:
    """LCH-60: no code is missing, and none is too many."""
    assert set(ICE) == CAPACITY_CODES


@pytest.mark.parametrize("code", ICE)
async def test_a_fleet_s_error_ends_the_machine(
    world: CrashWorld, launch: LaunchController, code: str
) -> None:
    """LCH-60, LCH-61, LCH-64: the offering that the error names is left alone by every service."""
    world.control.post("fleets", give=0, code=code)
    await launch.launch("m-a")
    assert await is_given_up(world)
    marked = await world.unavailable.current()
    assert {(kind, name) for kind, name, _ in marked} == {(keys.ON_DEMAND, "m5.large")}


@pytest.mark.parametrize("code", ICE)
async def test_a_refused_call_ends_the_machine(
    world: CrashWorld, launch: LaunchController, code: str
) -> None:
    """LCH-60, LCH-64: it names no offering, so all that it asked for is left alone."""
    world.control.post("faults", action="CreateFleet", code=code, status=400)
    await launch.launch("m-a")
    assert await is_given_up(world)
    assert {zone for _, _, zone in await world.unavailable.current()} == set(ZONES)


@pytest.mark.slow
@pytest.mark.parametrize("code", NOT_FOUND)
async def test_what_is_missing_is_looked_for_again(
    world: CrashWorld, launch: LaunchController, code: str
) -> None:
    """LCH-25, LCH-66: the call is made anew with what is there then; nothing is marked, the machine stays."""
    world.control.post("faults", action="CreateFleet", code=code, status=400)
    with pytest.raises(RetryLater):
        await launch.launch("m-a")
    assert await world.unavailable.current() == frozenset()
    world.wait(3)
    await launch.launch("m-a")
    assert await world.owned() == world.started()
    assert len(world.started()) == 1


async def test_a_record_of_another_form_keeps_nobody_else_waiting(
    world: CrashWorld, launch: LaunchController
) -> None:
    """F1: what it may have started nobody knows, so its own machine is not started a second time."""
    other = await create_machine(world.kube, "m-b")
    subject = {"kind": "Machine", "name": "m-b", "uid": other["metadata"]["uid"]}
    request: dict[str, Any] = {"LaunchTemplateConfigs": [{"Overrides": [{}]}]}
    spec = {"machines": [subject], "clientToken": "lr-odd", "request": request, "attempt": 0}
    body = {"metadata": {"name": "lr-odd"}, "spec": {**spec, "createdAt": "2026-01-01T00:00:00Z"}}
    await world.kube.create(LAUNCH_RECORDS, body)
    ends = await asyncio.gather(launch.launch("m-a"), launch.launch("m-b"), return_exceptions=True)
    assert [type(end) for end in ends] == [type(None), RetryLater]
    assert await world.owned() == world.started()
    assert len(world.started()) == 1


async def test_a_template_that_a_fleet_misses_is_looked_for_again(
    world: CrashWorld, launch: LaunchController
) -> None:
    """LCH-25: EC2 may say so of the whole call, and of the launches that the call makes."""

    def looks() -> int:
        return len(world.control.get("calls?action=DescribeLaunchTemplates")["calls"])

    world.control.post("fleets", give=0, code="InvalidLaunchTemplateId.NotFound")
    with pytest.raises(RetryLater):
        await launch.launch("m-a")
    before = looks()
    world.wait(3)
    await launch.launch("m-a")
    assert looks() > before
    assert await world.unavailable.current() == frozenset()
    assert await world.owned() == world.started()
    assert len(world.started()) == 1


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError"])
async def test_a_fleet_that_is_throttled_itself_slows_the_launcher_down(
    world: CrashWorld, launch: LaunchController, code: str
) -> None:
    """F17: the call was taken, the launches that it makes were not; any other fault says nothing of the pace."""
    pace = launch.saga.queue.pace
    before = pace.rate_per_second
    world.control.post("fleets", give=0, code=code)
    with pytest.raises(RetryLater):
        await launch.launch("m-a")
    assert (pace.rate_per_second <= 1.0 < before) == (code == "RequestLimitExceeded")
    assert await world.unavailable.current() == frozenset()
    world.wait(3)
    await launch.launch("m-a")
    assert await world.owned() == world.started()
    assert len(world.started()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("code", [*ICE, *NOT_FOUND])
async def test_a_refused_repeat_never_starts_a_second_instance(
    world: CrashWorld, code: str
) -> None:
    """F1: the first call had worked, its answer was lost, and EC2 refuses the repeat, whatever its reason."""
    launch = world.incarnation(Life())
    world.control.post("faults", action="CreateFleet", status=0, mode="after")
    world.control.post("faults", action="CreateFleet", code=code, status=400)
    with pytest.raises(RetryLater):
        await launch.launch("m-a")
    world.wait(3)
    await launch.launch("m-a")
    assert await world.owned() == world.started()
    assert len(world.started()) == 1


async def test_a_list_that_lags_starts_no_second_instance(
    world: CrashWorld, launch: LaunchController
) -> None:
    """F1, F20: EC2 shows the instance 90 s late, and refuses every repeat: two looks must be further apart."""
    world.control.post("settings", describeLagSeconds=90)
    world.control.post("faults", action="CreateFleet", status=0, mode="after")
    world.control.post("faults", action="CreateFleet", code="UnauthorizedOperation", count=9)
    try:
        for _ in range(12):
            await asyncio.gather(launch.launch("m-a"), return_exceptions=True)
            assert len(world.started()) == 1
            world.wait(31)
        assert await world.owned() == world.started()
    finally:
        world.control.post("clear")
        world.control.post("settings", **FORGETFUL)


async def wait(world: CrashWorld, seconds: float) -> None:
    """Time passes for AWS, the launcher and Redis."""
    world.wait(seconds)
    await elapse(world.bus.redis, world.bus.prefix, seconds)


async def test_what_had_no_capacity_is_asked_for_again_after_three_minutes(
    world: CrashWorld, launch: LaunchController
) -> None:
    """ACC-62: the machine goes; the next ones find the offering unavailable without a call, until it is not."""
    everything = {"instanceType": "m5.large", "zone": "*", "capacityType": "*"}
    world.control.post("capacity", **everything, available=0)
    try:
        await launch.launch("m-a")
        assert await is_given_up(world)
    finally:
        world.control.post("capacity", **everything, available=None)
    asked = calls(world)
    await wait(world, 170)
    await create_machine(world.kube, "m-b")
    await launch.launch("m-b")
    assert await is_given_up(world, "m-b")
    assert calls(world) == asked
    await wait(world, 11)
    await create_machine(world.kube, "m-c")
    await launch.launch("m-c")
    assert await world.owned() == world.started()
    assert len(world.started()) == 1
