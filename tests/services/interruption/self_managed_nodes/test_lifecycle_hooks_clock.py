"""Lifecycle hooks while the terminator's clock is wrong (INT-41)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.domain import labels as keys
from tests.services.interruption.self_managed_nodes.hook_world import HookWorld, hook_world
from tests.services.terminator.conftest import clock, kube, store
from tests.services.terminator.conftest import world as terminator_world

__all__ = ["clock", "kube", "store", "terminator_world"]


@pytest.fixture
async def hooked(terminator_world: Any, redis_url: str) -> AsyncIterator[HookWorld]:
    async with hook_world(terminator_world, redis_url) as made:
        yield made


def is_drained(hooked: HookWorld) -> bool:
    return keys.DRAINED_ANNOTATION in hooked.node.annotations


async def test_a_clock_that_jumps_ahead_brings_the_end_of_the_drain_no_nearer(
    hooked: HookWorld,
) -> None:
    """Neither is a pod deleted against its budget, nor is the drain given up."""
    hooked.restart(lifecycle_drain_limit=300)
    pod = hooked.world.pod("web", hooked.name, terminationGracePeriodSeconds=30)
    await hooked.world.budget("web", "web", minAvailable=1)
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    await hooked.world.step()
    hooked.world.clock.wall += 3600
    for _ in range(5):
        await hooked.world.step()
        assert "deletionTimestamp" not in hooked.world.leaving(pod)
        hooked.world.clock.advance(50)
    assert not is_drained(hooked)
    hooked.world.clock.advance(20)
    await hooked.world.step()
    assert hooked.world.leaving(pod)["deletionTimestamp"]


async def test_a_clock_that_is_ahead_does_not_make_pods_stuck(hooked: HookWorld) -> None:
    """An evicted pod has its grace and a minute, counted by the drain itself."""
    hooked.restart(lifecycle_drain_limit=3000)
    pod = hooked.world.pod("web", hooked.name, terminationGracePeriodSeconds=30)
    hooked.world.stuck.add("web")
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    await hooked.world.step()
    hooked.world.clock.wall += 2000
    hooked.world.restart()
    for _ in range(9):
        await hooked.world.step()
        assert hooked.world.leaving(pod)["deletionTimestamp"]
        assert not is_drained(hooked)
        hooked.world.clock.advance(10)
    await hooked.turns(5, lambda: is_drained(hooked))
