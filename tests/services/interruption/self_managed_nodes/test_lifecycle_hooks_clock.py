"""Lifecycle hooks while the clock of the terminator or of the hooks' keeper is wrong (INT-41)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.domain import labels as keys
from tests.services.interruption.self_managed_nodes.hook_world import (
    HEARTBEAT_TIMEOUT,
    HookWorld,
    hook_world,
)
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


async def test_a_clock_that_jumps_ahead_ends_no_hook(hooked: HookWorld) -> None:
    """The group would end the instance before its pods have left."""
    hooked.restart(lifecycle_drain_limit=300)
    await waiting_for_budget(hooked)
    hooked.world.clock.wall += 3600
    await hooked.keeper.check()
    assert hooked.calls("CompleteLifecycleAction") == 0


async def test_a_clock_that_jumps_back_sends_heartbeats_in_time(hooked: HookWorld) -> None:
    await waiting_for_budget(hooked)
    hooked.world.clock.wall -= 3600
    for _ in range(3):
        hooked.world.clock.advance(HEARTBEAT_TIMEOUT / 2)
        await hooked.keeper.check()
    assert hooked.calls("RecordLifecycleActionHeartbeat") == 3


async def waiting_for_budget(hooked: HookWorld) -> None:
    """The keeper knows a hook whose node cannot be drained."""
    hooked.world.pod("web", hooked.name)
    await hooked.world.budget("web", "web", minAvailable=1)
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    await hooked.watch()
    await hooked.keeper.check()
