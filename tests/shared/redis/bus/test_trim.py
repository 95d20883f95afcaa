"""Safe trimming on a real Redis (F11)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from shared.redis.bus import Bus, Envelope, connect

GROUPS = ("a", "b", "c")


@pytest.mark.parametrize("seed", range(5))
async def test_no_order_of_reads_acks_claims_and_trims_loses_an_entry(
    bus: Bus, redis_url: str, seed: int
) -> None:
    """Model test: an entry is acknowledged by a group, or that group can still have its body."""
    chance = random.Random(seed)
    redis = connect(redis_url)
    stream = f"{bus.prefix}s"
    added: list[Any] = []
    acknowledged: dict[str, set[bytes]] = {group: set() for group in GROUPS}
    given: dict[str, list[bytes]] = {group: [] for group in GROUPS}
    for group in GROUPS:
        await redis.xgroup_create(stream, group, id="0", mkstream=True)

    async def add() -> None:
        added.extend([await redis.xadd(stream, {"n": len(added)}) for _ in range(3)])

    async def read() -> None:
        group = chance.choice(GROUPS)
        reply: Any = await redis.xreadgroup(group, "x", {stream: ">"}, count=chance.randint(1, 6))
        given[group] += [entry[0] for entry in (reply[0][1] if reply else [])]

    async def acknowledge() -> None:
        group = chance.choice(GROUPS)
        waiting = [id for id in given[group] if id not in acknowledged[group]]
        chosen = chance.sample(waiting, min(len(waiting), chance.randint(1, 6)))
        if chosen:
            await redis.xack(stream, group, *chosen)
            acknowledged[group] |= set(chosen)

    async def claim() -> None:
        await redis.xautoclaim(stream, chance.choice(GROUPS), "y", 0, count=5)

    async def trim() -> None:
        await bus.trim("s")

    trimmed = 0
    for _ in range(120):
        before = await redis.xlen(stream)
        step = chance.choice([add, read, read, acknowledge, acknowledge, claim, trim])
        await step()
        trimmed += max(0, before - await redis.xlen(stream))
    for group in GROUPS:
        claimed = await redis.xautoclaim(stream, group, "z", 0, count=1000)
        pending = {entry[0] for entry in claimed[1] if entry is not None}
        reply: Any = await redis.xreadgroup(group, "z", {stream: ">"}, count=1000)
        unread = {entry[0] for entry in (reply[0][1] if reply else [])}
        assert acknowledged[group] | pending | unread == set(added)
    assert trimmed > 0
    await redis.aclose()


async def test_nothing_is_removed_while_a_group_is_missing(
    bus: Bus, redis_url: str, message: Callable[..., Envelope]
) -> None:
    """F11: Redis lost its data, and one of two services has not created its group again yet."""
    redis = connect(redis_url)
    stream = f"{bus.prefix}machines"
    for name in ("n1", "n2"):
        await bus.publish("machines", message(name))
    for group, removed in (("scheduler", 0), ("launcher", 1)):
        await redis.xgroup_create(stream, group, id="0")
        reply: Any = await redis.xreadgroup(group, "x", {stream: ">"})
        assert len(reply[0][1]) == 2, "nobody dropped one before"
        await redis.xack(stream, group, *(entry[0] for entry in reply[0][1]))
        assert await bus.trim("machines") == removed
    await redis.aclose()


async def test_a_stream_without_groups_and_a_missing_stream_are_left_alone(
    bus: Bus, message: Callable[..., Envelope]
) -> None:
    """Nobody has read anything yet, so nothing is known to be safe."""
    assert await bus.trim("nothing") == 0
    await bus.publish("launches", message("n1"))
    assert await bus.trim("launches") == 0
