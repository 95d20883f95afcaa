"""Dead letters that come from another queue under a name of their own: each is kept once, in bounded memory."""

from __future__ import annotations

import pytest

from shared.errors import Unavailable
from shared.redis.bus import BadMessage, Bus, dead_letters
from shared.redis.bus.connection import call
from shared.redis.bus.dead_letters import DeadLetters


async def add(letters: DeadLetters, name: str) -> None:
    await letters.add(
        source=name, group="g", fields={b"body": b"{"}, deliveries=1, error=BadMessage("no"),
        once=name,
    )  # fmt: skip


async def test_a_name_is_buried_once_and_without_one_each_time(bus: Bus) -> None:
    letters = DeadLetters(bus.redis, bus.prefix, "pods")
    for name in ("a", "b", "a", "", "", "b"):
        await add(letters, name)
    assert sorted(letter.source for letter in await letters.newest(10)) == ["", "", "a", "b"]


async def test_only_the_latest_names_are_remembered(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "NAMES_LIMIT", 3)
    letters = DeadLetters(bus.redis, bus.prefix, "pods")
    for number in range(20):
        await add(letters, f"{number:02}")
    key = f"{bus.prefix}pods:dead:names"
    assert await call(bus.redis, "count", "ZCARD", key) == 3
    assert 0 < await call(bus.redis, "lifetime", "PTTL", key) <= dead_letters.NAMES_MILLISECONDS
    await add(letters, "19")
    assert await letters.count() == 20


async def test_a_full_redis_refuses_the_letter_and_remembers_no_name(bus: Bus) -> None:
    """F10: what is refused must not count as kept when it comes again."""
    letters = DeadLetters(bus.redis, bus.prefix, "pods")
    await add(letters, "a")
    await call(bus.redis, "fill", "CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(Unavailable):
            await add(letters, "b")
    finally:
        await call(bus.redis, "empty", "CONFIG", "SET", "maxmemory", "0")
    await add(letters, "b")
    assert await letters.count() == 2
