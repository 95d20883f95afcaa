"""Two launchers at once: the old one and the new one of a rolling update, or two replicas (F1, F30, I1).

Messages go to one of them, but both list all the work from the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from services.launcher.launch.controller import LaunchController
from services.launcher.launch.fleet import LaunchRecord
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.kube.resources import MACHINES
from shared.redis.bus import RetryLater
from tests.services.conftest import create_machine
from tests.services.launcher.crash_world import CrashWorld, crashes
from tests.services.launcher.mortal import Died, Life

__all__ = ["crashes"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
NAMES = ("a", "b", "c")


@pytest_asyncio.fixture(loop_scope="module")
async def world(crashes: CrashWorld) -> CrashWorld:
    """Three machines wait."""
    await crashes.empty()
    for name in NAMES:
        await create_machine(crashes.kube, name)
    return crashes


async def ask(launch: LaunchController, names: tuple[str, ...]) -> list[Any]:
    return await asyncio.gather(*(launch.launch(name) for name in names), return_exceptions=True)


def before_writing(launch: LaunchController, act: Callable[[], Awaitable[Any]]) -> None:
    """``act`` happens after the decision and right before the record is written, once."""
    records = launch.records
    write = records.write
    done: list[bool] = []

    async def delayed(record: LaunchRecord) -> tuple[LaunchRecord, bool]:
        if not done:
            done.append(True)
            await act()
        return await write(record)

    records.write = delayed  # type: ignore[method-assign]


async def finish(world: CrashWorld, *launches: LaunchController) -> None:
    """All go on until nothing is left: one instance for each machine, and never another."""
    for _ in range(6):
        ended = [one for launch in launches for one in await ask(launch, NAMES)]
        assert all(one is None or isinstance(one, RetryLater) for one in ended), ended
        world.clock.advance(21)
    owned = await world.owned()
    assert len(set(owned)) == len(owned) == len(NAMES)
    assert world.started() == owned
    assert await world.records() == []


@pytest.mark.slow
async def test_a_launch_that_another_began_meanwhile_is_left_to_it(world: CrashWorld) -> None:
    """Both saw three machines without a record; one grouped them otherwise and was faster."""
    slow, fast = world.incarnation(Life()), world.incarnation(Life())
    before_writing(slow, lambda: ask(fast, ("a", "b")))
    await ask(slow, NAMES)
    await finish(world, slow, fast)


async def test_of_two_open_records_the_older_one_counts(world: CrashWorld) -> None:
    """Both have written, neither has called: the younger record goes, its call is never made."""
    slow, dead = world.incarnation(Life()), Life(dies_at=1, after=True)
    before_writing(slow, lambda: ask(world.incarnation(dead), ("b", "c")))
    ended = await ask(slow, NAMES)
    assert all(isinstance(one, RetryLater) for one in ended)
    assert world.started() == []
    assert len(await world.records()) == 1
    await finish(world, slow, world.incarnation(Life()))


async def test_a_younger_record_that_a_crash_left_is_not_sent(world: CrashWorld) -> None:
    """The launcher dies between its record and its read of others'; the other one ends well."""
    life = Life(dies_at=1, after=True)
    slow, fast = world.incarnation(life), world.incarnation(Life())
    died: list[Any] = []

    async def first_record_then_the_dying_one() -> None:
        held = fast.saga.ports.cloud.ec2.create_fleet

        async def late(request: dict[str, Any]) -> Any:
            died.extend(await ask(slow, NAMES))
            return await held(request)

        fast.saga.ports.cloud.ec2.create_fleet = late  # type: ignore[method-assign]
        await ask(fast, ("a", "b"))

    slow_records = slow.records
    listed = await slow_records.list_open()

    async def before_the_other(*_: Any) -> Any:
        return listed

    slow_records.list_open = before_the_other  # type: ignore[method-assign]
    await first_record_then_the_dying_one()
    assert any(isinstance(one, Died) for one in died)
    await finish(world, world.incarnation(Life()), world.incarnation(Life()))


async def test_a_machine_deleted_before_its_record_is_not_launched(world: CrashWorld) -> None:
    """Its finalizer is taken off as soon as no record names it: the instance would be nobody's."""
    launch = world.incarnation(Life())

    async def delete() -> None:
        await world.kube.patch(MACHINES, "b", {"metadata": {"finalizers": None}})
        await world.kube.delete(MACHINES, "b")

    before_writing(launch, delete)
    await ask(launch, NAMES)
    for _ in range(3):
        world.clock.advance(21)
        await ask(launch, NAMES)
    assert len(await world.owned()) == 2
    assert world.started() == await world.owned()


async def test_two_that_carry_one_record_deal_alike(world: CrashWorld) -> None:
    """After a crash the old pod and the new one find the same open record."""
    life = Life(dies_at=2, after=True)
    await ask(world.incarnation(life), NAMES)
    first, second = world.incarnation(Life()), world.incarnation(Life())
    await asyncio.gather(ask(first, NAMES), ask(second, NAMES))
    await finish(world, first, second)


async def test_a_refusal_proves_nothing_when_another_may_have_sent_the_record(
    world: CrashWorld,
) -> None:
    """Between its record and its call another launcher makes the call, whose answer is lost."""
    writer, other = world.incarnation(Life()), world.incarnation(Life())
    ec2: Any = writer.saga.ports.cloud.ec2
    held = ec2.create_fleet

    async def late(request: dict[str, Any]) -> Any:
        world.control.post("faults", action="CreateFleet", status=0, mode="after")
        await ask(other, NAMES)
        world.control.post("faults", action="CreateFleet", code="UnauthorizedOperation", status=403)
        return await held(request)

    ec2.create_fleet = late
    await ask(writer, NAMES)
    ec2.create_fleet = held
    assert len(world.started()) == len(NAMES)
    await finish(world, writer, other)


async def test_instances_are_adopted_first_and_dealt_later(world: CrashWorld) -> None:
    """F1, F20: a refused replay adopts what EC2 shows yet, in any order; the next replay respects it."""
    await ask(world.incarnation(Life(dies_at=2, after=True)), NAMES)
    launch = world.incarnation(Life())
    ec2: Any = launch.saga.ports.cloud.ec2
    everything = ec2.instances

    async def only_the_last(**asked: Any) -> Any:
        found = await everything(**asked)
        return sorted(found, key=lambda one: one.id)[-1:] if asked.get("tags") else found

    ec2.instances = only_the_last
    world.control.post("faults", action="CreateFleet", code="UnauthorizedOperation", status=403)
    await ask(launch, NAMES)
    assert await world.owned() == world.started()[-1:]
    ec2.instances = everything
    world.clock.advance(ALL_LISTED_SECONDS + 1)
    await finish(world, launch)
