"""Dovetail and Karpenter take part in one election, so at most one of them acts (MAP-05)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from shared.concurrency.clock import Clock
from shared.kube.client import Kube
from shared.kube.lease import Lease, LeaseTimes, read_record
from shared.kube.resources import LEASES
from shared.metrics import Metrics
from shared.runtime.karpenter_lease import GIVE_BACK, HOLDER, karpenter_lease, take_turns
from shared.runtime.services import Loop, Service, supervise
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import Cluster, eventually

NAME = "karpenter-leader-election"
QUICK = LeaseTimes(duration=15, renew_deadline=10, retry_period=0.01)


class Acting:
    """A service with one loop, which notes whether it runs."""

    def __init__(self, cluster: Cluster, clock: FakeClock) -> None:
        self.active = False
        self.service = Service("terminator", [Loop("act", self._act)], Metrics("terminator"), dict)
        self.lease = karpenter_lease(
            cluster.kube, cluster.namespace, NAME, clock=clock, random=Random(1)
        )
        self.lease.times = QUICK
        take_turns(self.service, self.lease, clock)
        self.clock: Clock = clock

    async def _act(self, stop: asyncio.Event) -> None:
        self.active = True
        try:
            await stop.wait()
        finally:
            self.active = False


@asynccontextmanager
async def running(acting: Acting) -> AsyncIterator[Acting]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for loop in acting.service.loops:
            group.create_task(supervise(loop, stop, acting.service.metrics, acting.clock))
        yield acting
        stop.set()


@asynccontextmanager
async def karpenter(cluster: Cluster, clock: FakeClock) -> AsyncIterator[Lease]:
    """Karpenter's own candidate, which frees the Lease when it stops."""
    lease = Lease(
        cluster.kube, NAME, cluster.namespace, "karpenter-7c9f-abc",
        clock=clock, random=Random(2), times=QUICK,
    )  # fmt: skip
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(lease.run(stop))
        yield lease
        stop.set()


async def holder(kube: Kube, namespace: str) -> str:
    return read_record(await kube.get(LEASES, NAME, namespace)).holder


async def annotate(cluster: Cluster, value: str | None) -> None:
    body: dict[str, Any] = {"metadata": {"annotations": {GIVE_BACK: value}}}
    await cluster.kube.patch(LEASES, NAME, body, cluster.namespace)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_nothing_acts_while_karpenter_leads(cluster: Cluster, clock: FakeClock) -> None:
    async with karpenter(cluster, clock) as theirs:
        await theirs.acquired.wait()
        async with running(Acting(cluster, clock)) as ours:
            clock.advance(1)
            at = clock.monotonic()
            await eventually(lambda: ours.lease.last_progress >= at)
            assert not ours.active
            assert "Karpenter may act" in ours.service.missing()[0]


async def test_all_services_act_when_karpenter_has_stopped(
    cluster: Cluster, clock: FakeClock
) -> None:
    async with karpenter(cluster, clock) as theirs:
        await theirs.acquired.wait()
    async with running(Acting(cluster, clock)) as one, running(Acting(cluster, clock)) as other:
        await eventually(lambda: one.active and other.active)
        assert one.service.missing() == []
        assert await holder(cluster.kube, cluster.namespace) == HOLDER


async def test_a_service_that_stops_does_not_free_the_lease_for_karpenter(
    cluster: Cluster, clock: FakeClock
) -> None:
    async with running(Acting(cluster, clock)) as one:
        async with running(Acting(cluster, clock)) as other:
            await eventually(lambda: one.active and other.active)
        assert await holder(cluster.kube, cluster.namespace) == HOLDER
        assert one.active


async def test_karpenter_that_is_started_again_waits(cluster: Cluster, clock: FakeClock) -> None:
    async with running(Acting(cluster, clock)) as ours:
        await eventually(lambda: ours.active)
        async with karpenter(cluster, clock) as theirs:
            clock.advance(1)
            at = clock.monotonic()
            await eventually(lambda: theirs.last_progress >= at and ours.lease.last_progress >= at)
            assert not theirs.held
            assert ours.active


async def test_it_gives_the_lease_back_when_it_is_annotated(
    cluster: Cluster, clock: FakeClock
) -> None:
    async with running(Acting(cluster, clock)) as ours, karpenter(cluster, clock) as theirs:
        await eventually(lambda: ours.active or theirs.held)
        await annotate(cluster, "true")
        await theirs.acquired.wait()
        await eventually(lambda: not ours.active)
        assert (await holder(cluster.kube, cluster.namespace)).startswith("karpenter-")
    await annotate(cluster, None)
    async with running(Acting(cluster, clock)) as ours:
        await eventually(lambda: ours.active)


async def test_a_service_that_gives_the_lease_back_does_not_free_it_for_karpenter(
    cluster: Cluster, clock: FakeClock
) -> None:
    """Another service, which has not seen the annotation yet, still acts by it."""
    async with running(Acting(cluster, clock)) as ours:
        await eventually(lambda: ours.active)
        await annotate(cluster, "true")
        await eventually(lambda: not ours.active)
        assert await holder(cluster.kube, cluster.namespace) == HOLDER
