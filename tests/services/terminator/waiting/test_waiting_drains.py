"""A drain that waits asks the API server for nothing, and goes on as soon as the mirror shows a change (TRM-05..14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest

from services.terminator.drain.pods import STUCK_SECONDS, seconds_to_next
from services.terminator.waiting.step import LONGEST_WAIT_SECONDS
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.workloads.pods import Pod
from shared.redis.mirror import Change, MirrorWriter
from tests.services.terminator.world import World
from tests.support.waiting import wait_until

HELD = {"karpenter.sh/do-not-disrupt": "true"}
PASSING_SECONDS = 0.05
"""Of simulated time between two heartbeats."""


@dataclass
class Watched:
    """A terminator whose loop runs, and the watcher's side of the mirror."""

    world: World
    writer: MirrorWriter
    requests: list[str] = field(default_factory=list)
    """Methods of the requests that the API server has answered."""

    async def pass_time(self, until: Callable[[], object], what: str) -> float:
        """Let time pass in small parts, with heartbeats, until something is so; the seconds that it took."""
        began = self.world.clock.seconds

        async def passed() -> object:
            self.world.clock.advance(PASSING_SECONDS)
            await self.writer.heartbeat()
            return until()

        await wait_until(passed, what)
        return self.world.clock.seconds - began

    async def waits(self) -> None:
        """All is done that can be done: no request for three seconds."""
        last = (0, self.world.clock.seconds)

        def is_quiet() -> bool:
            nonlocal last
            if len(self.requests) != last[0]:
                last = len(self.requests), self.world.clock.seconds
            return self.world.clock.seconds - last[1] > 3

        await self.pass_time(is_quiet, "a drain that waits")


@pytest.fixture
async def watched(world: World) -> Watched:
    writer = MirrorWriter(world.bus.redis, world.bus.prefix, "epoch")
    await writer.begin({})
    return Watched(world, writer)


@asynccontextmanager
async def running(watched: Watched) -> AsyncIterator[None]:
    """The terminator's loop, which looks often."""
    world = watched.world
    world.settings = world.settings_with(poll_seconds=0.01)
    world.restart()
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(world.queue.run(stop))
        try:
            await world.queue.resync()
            world.kube.observe(lambda _target, method, *_: watched.requests.append(method))
            yield
        finally:
            stop.set()


@pytest.mark.slow
@pytest.mark.parametrize("generation", [V1, V1ALPHA5])
async def test_a_drain_goes_on_when_the_mirror_shows_that_its_last_pod_is_gone(
    watched: Watched, generation: str
) -> None:
    """Long before the step that comes anyway."""
    world = watched.world
    (place,) = await world.places([generation])
    pod = world.pod("web", place.node, annotations=HELD)
    world.delete(place)
    async with running(watched):
        await watched.waits()
        world.store.delete("pods", pod, namespace="default", grace_seconds=0)
        await watched.writer.apply([Change("pods", f"default/{pod}", None)])
        seconds = await watched.pass_time(
            lambda: place.instance not in world.control.alive(), "the end of the instance"
        )
    assert seconds < LONGEST_WAIT_SECONDS / 2


@pytest.mark.slow
async def test_a_drain_goes_on_without_the_mirror(watched: Watched) -> None:
    """A change that the watcher does not see, and a watcher that is gone."""
    world = watched.world
    first, second = await world.places([V1, V1])
    pods = [world.pod(place.node, place.node, annotations=HELD) for place in (first, second)]
    for place in (first, second):
        world.delete(place)
    async with running(watched):
        await watched.waits()
        world.store.delete("pods", pods[0], namespace="default", grace_seconds=0)
        await watched.pass_time(lambda: first.instance not in world.control.alive(), "the first")
        world.store.delete("pods", pods[1], namespace="default", grace_seconds=0)

        def has_ended() -> bool:
            world.clock.advance(PASSING_SECONDS)
            return second.instance not in world.control.alive()

        await wait_until(has_ended, "the second, while the watcher is silent")


@pytest.mark.slow
async def test_a_refused_eviction_is_tried_again_after_its_own_pause(
    watched: Watched, events: Any
) -> None:
    """TRM-08: whatever the mirror shows, and not sooner."""
    world = watched.world
    (place,) = await world.places([V1])
    world.pod("web", place.node)
    await world.budget("web", "web", maxUnavailable=0)
    world.delete(place)
    async with running(watched):
        seconds = await watched.pass_time(lambda: refused(world) >= 9, "nine attempts")
    assert seconds == pytest.approx(0.1 * (2**8 - 1) / 2, abs=12), "0.1 s, doubled up to 10 s"
    assert ("FailedDraining", place.node) in await events()


def refused(world: World) -> float:
    count = world.metrics.registry.get_sample_value
    return count("karpenter_pods_eviction_requests_total", {"code": "429"}) or 0.0


def test_time_alone_makes_the_next_round_due() -> None:
    """TRM-06, TRM-11: a pod becomes stuck, its grace just fits, the deadline is there."""
    pod = Pod(uid="u", name="web", namespace="default", grace_seconds=30)
    leaving = Pod(uid="v", name="old", namespace="default", terminating=True, terminate_at=990.0)
    assert seconds_to_next([pod], now=1000.0) == inf
    assert seconds_to_next([pod], now=1000.0, deadline=1100.0) == 70
    assert seconds_to_next([pod], now=1080.0, deadline=1100.0) == 20
    assert seconds_to_next([pod], now=1100.0, deadline=1100.0) == inf
    assert seconds_to_next([pod, leaving], now=1000.0) == STUCK_SECONDS - 10
