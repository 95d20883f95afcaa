"""How long messages that are held stay hidden from other readers (INT-03, ACC-77).

The queue is the benchmark's, over HTTP; the deliveries are short, so that a test need not wait for long.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.interruption import body_of, instance_id
from bench.stacks.sqs_queue import Queue, served
from services.interruption.sources import deliveries as module
from services.interruption.sources.deliveries import Deliveries
from shared.api.v1alpha5.machines import parse_machine
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.kube.resources import MACHINES
from tests.services.conftest import Control, create_machine
from tests.services.interruption.conftest import INSTANCES, World
from tests.support.clock.fake import FakeClock
from tests.support.waiting import wait_until

NUMBER = 0
"""Of a spot warning in the benchmark's mix."""


@pytest.fixture
async def queue(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Queue, Cloud]]:
    """An empty queue and a client of it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    made = Queue()
    async with served(made) as url:
        cloud = await Cloud.connect(
            region="us-west-2", endpoint_url=url, clock=SystemClock(), random=random.Random(1),
            user_agent="dovetail-tests",
        )  # fmt: skip
        yield made, cloud
        await cloud.close()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries of one second, which are renewed after less than half of it."""
    monkeypatch.setattr(module, "VISIBILITY_SECONDS", 1)
    monkeypatch.setattr(module, "MARGIN_SECONDS", 0.2)
    monkeypatch.setattr(module, "RENEW_BELOW_SECONDS", 0.6)
    monkeypatch.setattr("services.interruption.sources.sqs.RENEWAL_PERIOD_SECONDS", 0.1)


@asynccontextmanager
async def busy(world: World, instance: str) -> AsyncIterator[None]:
    """Whatever is about this instance waits, as behind another notice about it."""
    turn = world.worker._turns.setdefault(instance, asyncio.Lock())
    async with turn:
        yield


@pytest.fixture
async def warned(world: World, queue: tuple[Queue, Cloud]) -> str:
    """An instance with a machine, whose spot warning is in the queue."""
    instance = instance_id(NUMBER)
    await create_machine(world.kube, "warned")
    status = {"status": {"providerID": f"aws:///us-west-2a/{instance}"}}
    raw = await world.kube.patch(MACHINES, "warned", status, subresource="status")
    await world.show("machines", parse_machine(raw))
    queue[0].send([body_of(NUMBER)])
    return instance


@pytest.mark.slow
@pytest.mark.usefixtures("short")
async def test_a_message_that_takes_long_does_not_come_twice(
    world: World, queue: tuple[Queue, Cloud], warned: str
) -> None:
    """Three times as long as a delivery."""
    sent, cloud = queue
    source = world.queue_source(cloud)
    async with world.running(source):
        async with busy(world, warned):
            await wait_until(lambda: sent.renewals >= 5, "it is hidden again and again")
        await wait_until(lambda: not sent.bodies, "it is handled and deleted")
    assert sent.deliveries == 1
    assert world.actions.deleted == 1
    assert len(source.deliveries) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("short")
async def test_what_waits_for_room_in_the_backlog_is_hidden_too(
    world: World, queue: tuple[Queue, Cloud], warned: str
) -> None:
    sent, cloud = queue
    source = world.queue_source(cloud)
    world.worker.backlog._waiting = asyncio.PriorityQueue(1)
    stop = asyncio.Event()
    sent.send([body_of(number) for number in (3, 6, 9)])
    async with asyncio.TaskGroup() as group:
        for run in (source.run, source.run_renewals):  # and nobody takes
            group.create_task(run(stop))
        await wait_until(lambda: sent.renewals >= 12, "all four are hidden again and again")
        stop.set()
    assert sent.deliveries == 4


@pytest.mark.slow
@pytest.mark.usefixtures("short")
async def test_what_a_killed_process_held_comes_again_with_the_end_of_its_delivery(
    world: World, queue: tuple[Queue, Cloud], warned: str
) -> None:
    sent, cloud = queue
    first = world.queue_source(cloud)
    stop = asyncio.Event()
    async with busy(world, warned), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(run(stop))
            for run in (first.run, first.run_renewals, world.worker.run)
        ]
        await wait_until(lambda: sent.renewals >= 2, "it is held")
        for task in tasks:
            task.cancel()
    assert sent.bodies
    async with world.running(world.queue_source(cloud)):
        await wait_until(lambda: not sent.bodies, "it came again")
    assert sent.deliveries == 2
    assert world.actions.deleted == 1


@pytest.mark.slow
@pytest.mark.usefixtures("short")
async def test_a_handling_that_hangs_does_not_hide_a_message_for_ever(
    world: World, queue: tuple[Queue, Cloud], warned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 1.5)
    sent, cloud = queue
    async with world.running(world.queue_source(cloud)):
        async with busy(world, warned):
            await wait_until(lambda: sent.deliveries >= 2, "it came again")
        await wait_until(lambda: not sent.bodies, "it is handled and deleted")
    assert sent.renewals >= 1
    assert world.actions.deleted == 1


async def test_a_role_that_may_not_renew_gets_long_deliveries(
    world: World, cloud: Cloud, control: Control, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """As one made for Karpenter. It is said once, and tried again after a while."""
    monkeypatch.setattr(module, "RENEW_BELOW_SECONDS", 7.0)
    monkeypatch.setattr("services.interruption.sources.sqs.RENEWAL_PERIOD_SECONDS", 0.1)
    denied = {"action": "ChangeMessageVisibilityBatch", "code": "AccessDenied", "status": 403}
    control.post("faults", **denied, count=1)
    control.post("interruptions", kind="spot", instanceId=INSTANCES["Machine"], foreign=True)
    source = world.queue_source(cloud)
    async with world.running(source):
        async with busy(world, INSTANCES["Machine"]):
            await wait_until(lambda: source.deliveries.visibility_seconds == 20, "it is refused")
        await wait_until(lambda: world.actions.deleted == 1, "it is handled all the same")
    printed = capsys.readouterr().out
    assert printed.count("deliveries cannot be renewed") == 1
    assert "allow sqs:ChangeMessageVisibility" in printed


async def test_a_refusal_holds_for_some_minutes(
    cloud: Cloud, control: Control, clock: FakeClock
) -> None:
    url = await cloud.sqs.queue_url("dovetail-local")
    control.post("interruptions", kind="spot", instanceId=INSTANCES["Machine"], foreign=True)
    (message,) = await cloud.sqs.receive(url, wait_seconds=5)
    held = Deliveries(cloud.sqs, clock)
    lengths = [held.visibility_seconds]
    delivery = held.add(message.receipt, 8)
    denied = {"action": "ChangeMessageVisibilityBatch", "code": "AccessDenied", "status": 403}
    control.post("faults", **denied, count=1)
    clock.advance(4)
    await held.renew(url)
    lengths.append(held.visibility_seconds)
    assert delivery.until - clock.monotonic() == pytest.approx(3)
    clock.advance(module.FORBIDDEN_SECONDS)
    lengths.append(held.visibility_seconds)
    assert lengths == [8, 20, 8]


async def test_only_what_runs_out_soon_is_renewed(
    queue: tuple[Queue, Cloud], clock: FakeClock
) -> None:
    """And what ran out is forgotten."""
    sent, cloud = queue
    url = await cloud.sqs.queue_url("dovetail-local")
    sent.send([body_of(NUMBER)] * 2)
    old, new = await cloud.sqs.receive(url, wait_seconds=0)
    held = Deliveries(cloud.sqs, clock)
    early = held.add(old.receipt, 8)
    clock.advance(4)
    late = held.add(new.receipt, 8)
    await held.renew(url)
    assert (early.until - clock.monotonic(), late.until - clock.monotonic()) == (7, 7)
    held.end(new.receipt)
    clock.advance(3)
    await held.renew(url)
    assert (early.until - clock.monotonic(), late.until - clock.monotonic()) == (7, 4)
    assert sent.renewals == 2
    clock.advance(7)
    await held.renew(url)
    assert len(held) == 0


async def test_what_sqs_refuses_to_hide_is_not_renewed_again(
    queue: tuple[Queue, Cloud], clock: FakeClock
) -> None:
    """It is deleted, as what another reader handled; the other one of its batch is renewed."""
    sent, cloud = queue
    url = await cloud.sqs.queue_url("dovetail-local")
    sent.send([body_of(NUMBER)] * 2)
    gone, ours = await cloud.sqs.receive(url, wait_seconds=0)
    await cloud.sqs.delete(url, [gone.receipt])
    held = Deliveries(cloud.sqs, clock)
    refused, renewed = held.add(gone.receipt, 8), held.add(ours.receipt, 8)
    clock.advance(3)
    await held.renew(url)
    assert (refused.until - clock.monotonic(), renewed.until - clock.monotonic()) == (4, 7)
    assert held.due() == []
    clock.advance(3)
    assert held.due() == [renewed]
