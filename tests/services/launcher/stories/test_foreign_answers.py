"""A proxy answers in EC2's place: one instance, none twice, and none is taken for gone (R6)."""

from __future__ import annotations

import contextlib

import pytest
import pytest_asyncio

from services.launcher.launch.controller import LaunchController
from shared.errors import TransientError
from shared.kube.resources import MACHINES
from shared.redis.bus import RetryLater
from tests.services.conftest import create_machine
from tests.services.launcher.crash_world import CrashWorld, crashes
from tests.services.launcher.mortal import Life

__all__ = ["crashes"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "<html><body>the proxy says hello</body></html>"
NOTHING = (
    '<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
    "<requestId>r-1</requestId>{inside}</CreateFleetResponse>"
)
ANSWERS = {
    "a page": PAGE,
    "nothing": "",
    "cut": NOTHING.format(inside="<fleetId>fleet-1")[:-24],
    "another operation": NOTHING.format(inside="").replace("CreateFleet", "DescribeFleets"),
    "no fleet": NOTHING.format(inside=""),
    "text for a list": NOTHING.format(
        inside="<fleetId>fleet-1</fleetId><fleetInstanceSet>none</fleetInstanceSet>"
    ),
    "no reason": NOTHING.format(inside="<fleetId>fleet-1</fleetId><fleetInstanceSet/>"),
}


@pytest_asyncio.fixture(loop_scope="module")
async def world(crashes: CrashWorld) -> CrashWorld:
    """One machine waits: m-a."""
    await crashes.empty()
    await create_machine(crashes.kube, "m-a")
    return crashes


@pytest.fixture
def launch(world: CrashWorld) -> LaunchController:
    return world.incarnation(Life())


def replace_answer(world: CrashWorld, action: str, body: str, **fields: object) -> None:
    """The work is done, and this is what comes back."""
    world.control.post("faults", action=action, mode="after", status=200, body=body, **fields)


@pytest.mark.slow
@pytest.mark.parametrize("case", ANSWERS)
async def test_one_instance_whatever_answers_the_launch(
    world: CrashWorld, launch: LaunchController, case: str
) -> None:
    """The machine stays, no offering is marked, and the instance that was made becomes its own."""
    replace_answer(world, "CreateFleet", ANSWERS[case])
    with contextlib.suppress(RetryLater):  # what names its instance by tag is found at once
        await launch.launch("m-a")
    stored = await world.kube.get(MACHINES, "m-a")
    assert "deletionTimestamp" not in stored["metadata"]
    assert await world.unavailable.current() == frozenset()
    world.wait(3)
    await launch.launch("m-a")
    assert len(world.started()) == 1
    assert await world.owned() == world.started()
    assert await world.records() == []


async def test_a_page_for_a_launch_template_is_asked_again(world: CrashWorld) -> None:
    """The name says whether it is there already."""
    replace_answer(world, "CreateLaunchTemplate", PAGE)
    launch = world.incarnation(Life(), cold=True)
    with pytest.raises(RetryLater):
        await launch.launch("m-a")
    world.wait(3)
    await launch.launch("m-a")
    assert len(world.started()) == 1
    assert await world.owned() == world.started()


@pytest.mark.slow
async def test_instances_are_not_gone_because_a_proxy_says_nothing_of_them(
    world: CrashWorld, launch: LaunchController
) -> None:
    """Garbage, orphaned nodes and lost machines are all judged by DescribeInstances."""
    await launch.launch("m-a")
    (instance,) = world.started()
    for body in (PAGE, "<DescribeInstancesResponse><requestId>r</requestId></x>"):
        replace_answer(world, "DescribeInstances", body, count=5)
        with pytest.raises(TransientError):
            await launch.saga.ports.cloud.ec2.instances(ids=[instance])
    assert [one.id for one in await launch.saga.ports.cloud.ec2.instances(ids=[instance])] == [
        instance
    ]


async def test_a_page_is_no_proof_of_a_termination(
    world: CrashWorld, launch: LaunchController
) -> None:
    """The order is sent again until EC2 itself takes it."""
    await launch.launch("m-a")
    (instance,) = world.started()
    world.control.post("faults", action="TerminateInstances", status=200, body=PAGE)
    with pytest.raises(TransientError):
        await launch.saga.ports.cloud.ec2.terminate([instance])
    assert world.started() == [instance]
    assert await launch.saga.ports.cloud.ec2.terminate([instance]) == ()
