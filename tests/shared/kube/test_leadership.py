"""One process acts, the other stands by (OPS-11, ACC-81, F14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from shared.concurrency.waiting import pause
from shared.errors import Unavailable
from shared.kube.client import Kube
from shared.kube.lease import Lease, LeaseTimes
from shared.kube.resources import LEASES
from shared.metrics import Metrics
from shared.runtime.leadership import Leadership, epoch_now
from shared.runtime.services import Loop, periodic, supervise
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import Cluster, eventually
from tests.support.waiting import wait_until

NAME = "dovetail-test"


def candidate(cluster: Cluster, identity: str, clock: FakeClock) -> Leadership:
    times = LeaseTimes(duration=15, renew_deadline=10, retry_period=0.01)
    lease = Lease(
        cluster.kube,
        name=NAME,
        namespace=cluster.namespace,
        identity=identity,
        clock=clock,
        random=Random(3),
        times=times,
    )
    return Leadership(lease, clock)


class Worker:
    """Counts its turns while it may work, and notes how each of its terms ended."""

    def __init__(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.turns = 0
        self.cut_off = False
        self.loop = leadership.led(Loop("work", self.run))

    async def run(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                self.turns += 1
                await pause(stop, 0.005)
        except asyncio.CancelledError:
            self.cut_off = True
            raise


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for loop in (worker.loop, *worker.leadership.loops()):
            group.create_task(loop.run(stop))
        yield stop
        stop.set()


async def works(worker: Worker) -> None:
    """Wait until the worker had two more turns."""
    seen = worker.turns
    await eventually(lambda: worker.turns > seen + 1)


async def test_without_an_election_a_loop_is_what_it_was() -> None:
    alone = Leadership(None, FakeClock())
    loop = Loop("work", Worker(alone).run)
    assert alone.led(loop) is loop
    assert alone.loops() == []
    assert (alone.held, alone.epoch) == (True, 0)


async def test_only_the_leader_works_and_its_end_lets_the_other_begin(cluster: Cluster) -> None:
    first, second = (Worker(candidate(cluster, name, FakeClock())) for name in ("a", "b"))
    async with running(first) as stop_first:
        await works(first)
        async with running(second):
            await works(first)
            assert second.turns == 0
            assert second.leadership.status() == {"leading": False, "epoch": 0}
            stop_first.set()
            await works(second)
            assert second.leadership.epoch == 1
            assert await epoch_now(cluster.kube, NAME, cluster.namespace) == 1


async def test_a_leader_that_lost_its_lease_is_cut_off_and_may_lead_again(cluster: Cluster) -> None:
    worker = Worker(candidate(cluster, "a", FakeClock()))
    async with running(worker):
        await works(worker)
        await take_over(cluster.kube, cluster.namespace)
        await eventually(lambda: worker.cut_off)
        assert not worker.leadership.held
        await give_back(cluster.kube, cluster.namespace)
        await works(worker)


class BusyClock(FakeClock):
    """Raises when somebody reads it again and again without waiting, so that the test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0

    def monotonic(self) -> float:
        self.readings += 1
        assert self.readings < 10_000, "a loop does not wait"
        return super().monotonic()


async def test_a_loop_that_ends_when_the_lease_has_just_lapsed_waits_for_it(
    cluster: Cluster,
) -> None:
    """R8, F14: a Lease ends without a sign. A loop that fails at that moment must not keep the process busy."""
    clock, turns = BusyClock(), []
    leadership = candidate(cluster, "a", clock)

    async def work(stop: asyncio.Event) -> None:
        turns.append(leadership.held)
        if len(turns) == 1:
            clock.advance(11)  # longer than a Lease is held that nobody renews
        else:
            await stop.wait()

    stop, loop = asyncio.Event(), leadership.led(Loop("work", work))
    async with asyncio.TaskGroup() as group:
        for one in (loop, *leadership.loops()):
            group.create_task(one.run(stop))
        await eventually(lambda: len(turns) == 2)
        stop.set()
    assert turns == [True, True]


async def test_nobody_ever_led_is_epoch_zero(cluster: Cluster) -> None:
    assert await epoch_now(cluster.kube, "nobody", cluster.namespace) == 0


async def take_over(kube: Kube, namespace: str) -> None:
    lease = await kube.get(LEASES, NAME, namespace)
    holder = {"holderIdentity": "somebody else", "leaseTransitions": 7}
    await kube.patch(LEASES, NAME, {"spec": holder}, namespace)
    assert lease["spec"]["holderIdentity"] == "a"


async def give_back(kube: Kube, namespace: str) -> None:
    await kube.patch(LEASES, NAME, {"spec": {"holderIdentity": ""}}, namespace)


@pytest.mark.slow
async def test_a_led_loop_that_fails_again_and_again_is_told(cluster: Cluster) -> None:
    """Also where the loop that fails is a timed one, which notes for itself that it succeeded."""
    leader, stop, turns = candidate(cluster, "a", FakeClock()), asyncio.Event(), 0

    async def act() -> None:
        nonlocal turns
        turns += 1
        if turns < 4:
            raise Unavailable("Redis is away")

    loop = leader.led(periodic("beat", 0.01, act, clock=leader.clock, jitter=Random(1)))
    metrics, clock = Metrics("test"), leader.clock
    seen: set[str] = set()

    def look() -> bool:
        seen.add(loop.complaint(clock.monotonic()))
        return turns > 4

    async with asyncio.TaskGroup() as group:
        for one in (loop, *leader.loops()):
            group.create_task(supervise(one, stop, metrics, clock))
        await wait_until(look, "it goes on", every=0.001)
        after = loop.complaint(clock.monotonic())
        stop.set()
    assert "loop beat failed 2 times in a row: Redis is away" in seen
    assert after == ""
