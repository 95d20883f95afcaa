"""How soon the next search for garbage comes (LCH-80, LCH-81)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.garbage_collection.controller import FIRST_ROUNDS
from tests.services.launcher.lifecycle_world import World


async def test_it_comes_fast_after_a_start_and_while_something_is_lost(world: World) -> None:
    """20 s for the first 20 runs, then 2 min, and 30 s with a suspicion."""
    assert world.garbage.pause_seconds() == 20
    for _ in range(FIRST_ROUNDS):
        await world.sweep()
    assert world.garbage.pause_seconds() == 120
    await world.instances(world.tags("default-a"))
    await world.sweep()
    assert world.garbage.pause_seconds() == 30


async def test_it_comes_faster_when_one_of_the_first_finds_something_lost(world: World) -> None:
    """10 s, as Karpenter's."""
    await world.instances(world.tags("default-a"))
    await world.sweep()
    assert world.garbage.pause_seconds() == 10


@pytest.mark.parametrize(("took", "pause"), [(1.0, 20), (5.0, 50), (60.0, 120)])
async def test_it_comes_more_slowly_where_one_takes_long(
    world: World, monkeypatch: pytest.MonkeyPatch, took: float, pause: float
) -> None:
    """A cluster of thousands of instances: to read them costs seconds of CPU."""
    real = world.cloud.ec2.instances
    calls: list[dict[str, Any]] = []

    async def slow(**asked: Any) -> Any:
        calls.append(asked)
        if len(calls) == 1:
            world.clock.advance(took)
        return await real(**asked)

    monkeypatch.setattr(world.cloud.ec2, "instances", slow)
    await world.sweep()
    assert world.garbage.pause_seconds() == pause
