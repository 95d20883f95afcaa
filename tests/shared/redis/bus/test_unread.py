"""What a group has not read yet, also where Redis does not know its lag: after a trim, and on 6.2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from shared.redis import streams
from shared.redis.bus import Bus, Envelope
from shared.redis.bus import bus as bus_module

STREAM, GROUP = streams.LAUNCHES, "g"
Message = Callable[[str], Envelope]


async def fill(bus: Bus, message: Message, entries: int) -> None:
    key = f"{bus.prefix}{STREAM}"
    for number in range(entries):
        await bus.publish(STREAM, message(f"n{number}"))
    await bus.redis.xgroup_create(key, GROUP, "0")


async def read(bus: Bus, entries: int) -> None:
    key = f"{bus.prefix}{STREAM}"
    await bus.redis.xreadgroup(GROUP, "c", {key: ">"}, count=entries)


@pytest.mark.parametrize("known", [True, False])
async def test_what_no_consumer_has_read_is_counted(
    bus: Bus, message: Message, known: bool
) -> None:
    await fill(bus, message, 5)
    await read(bus, 2)
    group = (await bus.depth(STREAM)).groups[GROUP]
    found = await bus.unread(STREAM, group if known else replace(group, lag=None))
    assert (found.count, found.more) == (3, False)
    assert found.oldest is not None
    assert found.oldest > 1e9


async def test_after_all_is_read_nothing_waits(bus: Bus, message: Message) -> None:
    await fill(bus, message, 2)
    await read(bus, 2)
    group = replace((await bus.depth(STREAM)).groups[GROUP], lag=None)
    found = await bus.unread(STREAM, group)
    assert (found.count, found.more, found.oldest) == (0, False, None)


async def test_the_count_is_bounded(
    bus: Bus, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "MOST_COUNTED", 3)
    await fill(bus, message, 5)
    group = replace((await bus.depth(STREAM)).groups[GROUP], lag=None)
    found = await bus.unread(STREAM, group)
    assert (found.count, found.more) == (3, True)
