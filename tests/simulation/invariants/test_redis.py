"""Mirror, messages and queues: judged by what Redis holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared.redis.bus import Bus, Envelope
from shared.redis.mirror import Change, MirrorWriter
from shared.redis.streams import GROUPS
from simulation.invariants.delivery import (
    EveryMessageIsSettled,
    FailuresComeAgain,
    GroupsReadEverything,
    NoMessageIsDropped,
    QueuesAreBounded,
    StreamsAreTrimmed,
)
from simulation.invariants.mirror import MirrorIsEqual, expected_entries
from tests.simulation.invariants.builders import CLUSTER, History

PREFIX = f"dovetail:{{{CLUSTER}}}:"
LAUNCHES = f"{PREFIX}launches"


async def write_mirror(bus: Bus, snapshot: Any, *changes: Change) -> None:
    """As the watcher does."""
    writer = MirrorWriter(bus.redis, bus.prefix, "writer", key="secret")
    await writer.begin(snapshot)
    await writer.apply(changes)


def filled(history: History) -> Any:
    """The world with one object of each of some kinds."""
    history.pool()
    history.machine("a", "i-1", conditions=("Launched",))
    history.node("i-1")
    history.pod("web-1", "node-i-1")
    return history


async def test_a_mirror_of_everything_is_equal(history: History, bus: Bus) -> None:
    # I8
    world = filled(history)
    await write_mirror(bus, expected_entries(world))
    assert MirrorIsEqual().check(world) == []


async def test_what_is_missing_surplus_or_old_in_the_mirror_is_found(
    history: History, bus: Bus
) -> None:
    world = filled(history)
    snapshot = expected_entries(world)
    body = snapshot["pods"]["default/web-1"]
    await write_mirror(
        bus,
        snapshot,
        Change("pods", "default/gone", body),
        Change("nodes", "node-i-1", None),
        Change("machines", "NodeClaim/a", body),
    )
    assert MirrorIsEqual().check(world) == [
        "1 pods should be gone in the mirror: default/gone",
        "1 nodes are missing in the mirror: node-i-1",
        "1 machines are out of date in the mirror: NodeClaim/a",
    ]


async def test_another_process_may_write_the_same_record_in_another_order(
    history: History, bus: Bus
) -> None:
    world = filled(history)
    snapshot = expected_entries(world)
    record = msgspec.json.decode(snapshot["pods"]["default/web-1"])
    record["requests"] = dict(reversed(record["requests"].items()))
    turned = msgspec.json.encode(record)
    assert turned != snapshot["pods"]["default/web-1"]
    await write_mirror(bus, snapshot, Change("pods", "default/web-1", turned))
    assert MirrorIsEqual().check(world) == []


async def test_what_is_no_record_is_not_equal(history: History, bus: Bus) -> None:
    world = filled(history)
    await write_mirror(bus, expected_entries(world), Change("pods", "default/web-1", b"{"))
    assert MirrorIsEqual().check(world) == ["1 pods are out of date in the mirror: default/web-1"]


def test_an_emptied_redis_is_no_mirror(history: History) -> None:
    found = MirrorIsEqual().check(filled(history))
    assert "1 machines are missing in the mirror: NodeClaim/a" in found


@pytest.fixture
async def world(history: History, bus: Bus) -> Any:
    """Streams with the groups that the services create."""
    for stream, groups in GROUPS.items():
        for group in groups:
            await bus.redis.xgroup_create(PREFIX + stream, group, "0", mkstream=True)
    return history


def test_without_messages_everything_is_settled(world: Any) -> None:
    assert EveryMessageIsSettled().check(world) == []


def test_a_stream_that_nobody_reads_is_found(history: History) -> None:
    world: Any = history
    assert "nobody reads launches as launcher" in EveryMessageIsSettled().check(world)


async def test_a_message_is_settled_when_it_was_acknowledged(world: Any, bus: Bus) -> None:
    # I7
    settled = EveryMessageIsSettled()
    await bus.publish(
        "launches", Envelope(id="1", type="LaunchMachine", key="NodeClaim/a", body=b"{}", at=1.0)
    )
    assert settled.check(world) == ["launches for launcher: 0 pending, 1 unread"]
    await bus.redis.xreadgroup("launcher", "c", {LAUNCHES: ">"})
    (pending,) = world.redis.pending(LAUNCHES, "launcher")
    assert settled.check(world) == ["launches for launcher: 1 pending, 0 unread"]
    await bus.redis.xack(LAUNCHES, "launcher", pending.id)
    assert settled.check(world) == []
    await bus.redis.zadd(f"{PREFIX}delay:launches", {b"later": 1})
    assert settled.check(world) == ["1 messages of launches are put off"]


async def send(bus: Bus, *words: str) -> None:
    """One command, in the words of the protocol."""
    redis: Any = bus.redis
    await redis.execute_command(*words)


async def trimmed(world: Any, bus: Bus, command: str, *words: str) -> list[str]:
    """What is found when entries of the launches are removed; two are there, and the first is handled."""
    world.invariants = (NoMessageIsDropped(),)
    for number in (1, 2):
        await send(bus, "XADD", LAUNCHES, f"{number}-1", "a", "b")
        world.event("redis", command="xadd", stream="launches")
    await bus.redis.xreadgroup("launcher", "c", {LAUNCHES: ">"})
    await bus.redis.xack(LAUNCHES, "launcher", "1-1")
    await send(bus, command, LAUNCHES, *words)
    world.event("redis", command=command.lower(), stream="launches")
    found: list[str] = world.judge()
    return found


async def test_a_handled_entry_may_be_trimmed(world: Any, bus: Bus) -> None:
    # F11
    assert await trimmed(world, bus, "XTRIM", "MINID", "=", "2") == []


@pytest.mark.parametrize(("command", "words"), [("XTRIM", ("MINID", "=", "3")), ("XDEL", ("2-1",))])
async def test_an_entry_that_is_removed_before_it_was_acknowledged_is_found(
    world: Any, bus: Bus, command: str, words: tuple[str, ...]
) -> None:
    # I7
    assert await trimmed(world, bus, command, *words) == [
        f"{command.lower()} removed 2-1 of launches, which launcher has not handled"
    ]


async def test_an_entry_that_was_never_read_is_not_trimmed(world: Any, bus: Bus) -> None:
    world.invariants = (NoMessageIsDropped(),)
    await send(bus, "XADD", LAUNCHES, "1-1", "a", "b")
    world.event("redis", command="xadd", stream="launches")
    await send(bus, "XTRIM", LAUNCHES, "MAXLEN", "0")
    world.event("redis", command="xtrim", stream="launches")
    assert len(world.judge()) == 1


async def test_what_redis_itself_lost_was_dropped_by_nobody(world: Any, bus: Bus) -> None:
    world.invariants = (NoMessageIsDropped(),)
    await send(bus, "XADD", LAUNCHES, "1-1", "a", "b")
    world.event("redis", command="xadd", stream="launches")
    world.fault("redis-flush")
    await bus.redis.delete(LAUNCHES)
    await send(bus, "XADD", LAUNCHES, "2-1", "a", "b")
    world.event("redis", command="xadd", stream="launches")
    assert world.judge() == []


async def fill(bus: Bus, key: str, count: int) -> None:
    async with bus.redis.pipeline(transaction=False) as pipeline:
        for number in range(1, count + 1):
            pipeline.execute_command("XADD", key, f"{number}-1", "a", "b")
        await pipeline.execute()


async def test_a_stream_that_is_never_trimmed_is_found(world: Any, bus: Bus) -> None:
    # F11
    await fill(bus, f"{PREFIX}pods", 1_001)
    assert StreamsAreTrimmed().check(world) == [
        "pods holds 1001 entries, at most 1000 without work"
    ]


async def test_dead_letters_are_bounded(world: Any, bus: Bus) -> None:
    """I12; asked every few seconds, for it costs a little."""
    world.invariants = (QueuesAreBounded(),)
    world.event("redis", command="XADD")
    await fill(bus, f"{LAUNCHES}:dead", 1_101)
    world.event("redis", command="XADD")
    assert world.judge() == []
    world.wait(10)
    world.event("redis", command="XADD")
    assert world.judge() == ["launches:dead has 1101 entries, at most 1000"]


async def test_keys_are_bounded(world: Any, bus: Bus) -> None:
    world.invariants = (QueuesAreBounded(),)
    async with bus.redis.pipeline(transaction=False) as pipeline:
        for number in range(5_501):
            pipeline.set(f"key-{number}", "1")
        await pipeline.execute()
    world.event("redis", command="XADD")
    assert world.judge() == ["keys has 5506 entries, at most 5000"]


@pytest.mark.parametrize(("start", "sound"), [("0", True), ("$", False)])
async def test_a_new_group_reads_what_is_on_the_stream_already(
    history: History, bus: Bus, start: str, sound: bool
) -> None:
    # I7
    world: Any = history
    world.invariants = (GroupsReadEverything(),)
    await send(bus, "XADD", LAUNCHES, "1-1", "a", "b")
    await send(bus, "XGROUP", "CREATE", LAUNCHES, "launcher", start)
    world.event("redis", command="xgroup|create", stream="launches", group="launcher")
    assert world.judge() == (
        [] if sound else ["the new group launcher of launches skips 1 entries"]
    )


async def failed(world: Any, bus: Bus, deliveries: int = 1) -> None:
    """The launcher fails to handle the only message."""
    world.invariants = (FailuresComeAgain(),)
    await send(bus, "XADD", LAUNCHES, "1-1", "a", "b")
    await bus.redis.xreadgroup("launcher", "c", {LAUNCHES: ">"})
    for _ in range(deliveries - 1):
        await bus.redis.xclaim(LAUNCHES, "launcher", "c", 0, ["1-1"])
    world.event(
        "failure", name="launcher-0", what="failed", entry="1-1", deliveries=deliveries, foreseen=1
    )


async def acknowledge(world: Any, bus: Bus) -> list[str]:
    await bus.redis.xack(LAUNCHES, "launcher", "1-1")
    world.event("redis", command="xack", stream="launches")
    found: list[str] = world.judge()
    return found


async def test_a_message_whose_handling_failed_is_not_acknowledged(world: Any, bus: Bus) -> None:
    # F4
    await failed(world, bus)
    assert await acknowledge(world, bus) == [
        "launcher acknowledged 1-1 of launches, whose handling failed"
    ]


async def test_a_message_that_was_delivered_once_more_may_be_acknowledged(
    world: Any, bus: Bus
) -> None:
    await failed(world, bus)
    await bus.redis.xclaim(LAUNCHES, "launcher", "c", 0, ["1-1"])
    world.event("redis", command="xclaim", stream="launches")
    assert await acknowledge(world, bus) == []


async def test_a_message_that_failed_too_often_is_a_dead_letter(world: Any, bus: Bus) -> None:
    # F5
    await failed(world, bus, deliveries=5)
    assert await acknowledge(world, bus) == []


async def test_what_redis_forgot_was_acknowledged_by_nobody(world: Any, bus: Bus) -> None:
    await failed(world, bus)
    world.fault("redis-failover")
    assert await acknowledge(world, bus) == []
