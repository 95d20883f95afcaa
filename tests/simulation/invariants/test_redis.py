"""Mirror, messages and queues: judged by what a real Redis holds."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus, Envelope
from shared.redis.mirror import Change, MirrorWriter
from shared.redis.streams import GROUPS
from simulation.invariants.delivery import (
    EveryMessageIsSettled,
    QueuesAreBounded,
    StreamsAreTrimmed,
)
from simulation.invariants.mirror import MirrorIsEqual, expected_entries
from simulation.invariants.redis_contents import Group, RedisContents
from tests.simulation.invariants.builders import CLUSTER, History

CONTENTS = RedisContents()
PREFIX = f"dovetail:{{{CLUSTER}}}:"


def write_mirror(url: str, snapshot: Any, *changes: Change) -> None:
    """As the watcher does."""

    async def write() -> None:
        bus = Bus(url, CLUSTER, clock=SystemClock(), random=Random(1))
        writer = MirrorWriter(bus.redis, bus.prefix, "writer", key="secret")
        await writer.begin(snapshot)
        if changes:
            await writer.apply(changes)
        await bus.close()

    asyncio.run(write())


@pytest.fixture
def filled(history: History) -> History:
    history.pool()
    history.machine("a", "i-1", conditions=("Launched",))
    history.node("i-1")
    history.pod("web-1", "node-i-1")
    return history


def test_a_mirror_of_everything_is_equal(filled: History, redis_url: str) -> None:
    """I8."""
    write_mirror(redis_url, expected_entries(filled))  # type: ignore[arg-type]
    assert MirrorIsEqual(CONTENTS).check(filled) == []  # type: ignore[arg-type]


def test_what_is_missing_surplus_or_old_in_the_mirror_is_found(
    filled: History, redis_url: str
) -> None:
    snapshot = expected_entries(filled)  # type: ignore[arg-type]
    body = snapshot["pods"]["default/web-1"]
    write_mirror(
        redis_url,
        snapshot,
        Change("pods", "default/gone", body),
        Change("nodes", "node-i-1", None),
        Change("machines", "NodeClaim/a", body),
    )
    assert MirrorIsEqual(CONTENTS).check(filled) == [  # type: ignore[arg-type]
        "1 pods should be gone in the mirror: default/gone",
        "1 nodes are missing in the mirror: node-i-1",
        "1 machines are out of date in the mirror: NodeClaim/a",
    ]


def test_an_emptied_redis_is_no_mirror(filled: History) -> None:
    found = MirrorIsEqual(CONTENTS).check(filled)  # type: ignore[arg-type]
    assert "1 machines are missing in the mirror: NodeClaim/a" in found


def on_streams(history: History, redis_url: str, work: Any) -> None:
    """Groups as the services create them, then ``work`` on the bus."""
    execute = history.redis.execute
    for stream, groups in GROUPS.items():
        for group in groups:
            execute("XGROUP", "CREATE", PREFIX + stream, group, "0", "MKSTREAM")

    async def act() -> None:
        bus = Bus(redis_url, CLUSTER, clock=SystemClock(), random=Random(1))
        await work(bus)
        await bus.close()

    asyncio.run(act())


async def publish(bus: Bus) -> None:
    envelope = Envelope(id="1", type="LaunchMachine", key="NodeClaim/a", body=b"{}", at=1.0)
    await bus.publish("launches", envelope)


def test_without_messages_everything_is_settled(history: History, redis_url: str) -> None:
    async def nothing(bus: Bus) -> None:
        pass

    on_streams(history, redis_url, nothing)
    assert EveryMessageIsSettled(CONTENTS).check(history) == []  # type: ignore[arg-type]


def test_a_stream_that_nobody_reads_is_found(history: History) -> None:
    found = EveryMessageIsSettled(CONTENTS).check(history)  # type: ignore[arg-type]
    assert "nobody reads launches as launcher" in found


def test_a_message_is_settled_when_it_was_acknowledged(history: History, redis_url: str) -> None:
    """I7."""
    on_streams(history, redis_url, publish)
    settled, key = EveryMessageIsSettled(CONTENTS), f"{PREFIX}launches"
    world: Any = history
    assert settled.check(world) == ["launches for launcher: 0 pending, the rest is unread"]
    read = history.redis.execute("XREADGROUP", "GROUP", "launcher", "c", "STREAMS", key, ">")
    entry = read[0][1][0][0]
    assert settled.check(world) == ["launches for launcher: 1 pending, the rest is read"]
    assert CONTENTS.groups(world, key) == [Group("launcher", 1, False)]
    history.redis.execute("XACK", key, "launcher", entry)
    assert settled.check(world) == []
    history.redis.execute("ZADD", f"{PREFIX}delay:launches", 1, b"later")
    assert settled.check(world) == ["1 messages of launches are put off"]


def test_a_stream_that_is_never_trimmed_is_found(history: History) -> None:
    """F11."""
    for number in range(1_001):
        history.redis.execute("XADD", f"{PREFIX}pods", f"{number}-1", "a", "b")
    world: Any = history
    assert StreamsAreTrimmed(CONTENTS).check(world) == [
        "pods holds 1001 entries, at most 1000 without work"
    ]


def test_dead_letters_and_keys_are_bounded(history: History) -> None:
    """I12."""
    history.invariants = (QueuesAreBounded(CONTENTS),)
    history.event("redis", command="XADD")
    assert history.judge() == []
    for number in range(1_101):
        history.redis.execute("XADD", f"{PREFIX}launches:dead", f"{number}-1", "a", "b")
    history.event("redis", command="XADD")
    assert history.judge() == []
    history.wait(10)
    history.event("redis", command="XADD")
    assert history.judge() == ["launches:dead has 1101 entries, at most 1000"]
    history.redis.execute("DEL", f"{PREFIX}launches:dead")
    for number in range(5_501):
        history.redis.execute("SET", f"key-{number}", "1")
    history.wait(10)
    history.event("redis", command="XADD")
    assert history.judge() == ["keys has 5501 entries, at most 5000"]
