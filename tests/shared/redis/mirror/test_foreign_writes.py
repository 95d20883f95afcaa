"""Whoever reaches Redis cannot make a reader act on what the watcher did not write (BAT-05, OPS-13)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from shared.concurrency.clock import SystemClock
from shared.redis.mirror import Change, MirrorLost, MirrorReader, MirrorWriter, Position
from shared.redis.mirror.change import MirrorKeys
from tests.shared.redis.mirror.conftest import Until

PODS = {f"p{n}": b'{"n":%d}' % n for n in range(20)}
SOUND = {"pods": Position("100", True, 0.0)}


@pytest.fixture
def names(prefix: str) -> MirrorKeys:
    return MirrorKeys(prefix)


@pytest.fixture(params=["", "a key that the attacker does not have"], ids=["no key", "key"])
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def writer(redis: Redis, prefix: str, key: str) -> MirrorWriter:
    return MirrorWriter(redis, prefix, "epoch-a", key=key)


async def begun(writer: MirrorWriter) -> int:
    """A mirror of 20 pods, and the heartbeat that the watcher sends right after."""
    generation = await writer.begin({"pods": PODS, "nodes": {}})
    await writer.heartbeat(SOUND)
    return generation


async def verified(reader: MirrorReader, writer: MirrorWriter) -> None:
    """Heartbeats go on until the reader trusts its picture."""
    for _ in range(100):
        await writer.heartbeat(SOUND)
        if await reader.wait_until_verified(0.2):
            return
    raise AssertionError(reader.doubt)


async def heal(writer: MirrorWriter) -> None:
    """As the watcher's heartbeat does: written anew when it is lost, or when a reader asks."""
    try:
        if await writer.heartbeat(SOUND):
            return
    except MirrorLost:
        pass
    await begun(writer)


async def forge(redis: Redis, names: MirrorKeys, op: str, **fields: Any) -> None:
    """One entry on the stream that the watcher did not write."""
    flat = [word for pair in fields.items() for word in pair]
    await redis.execute_command("XADD", names.stream, "*", "op", op, *flat)


async def test_a_picture_is_verified_by_a_heartbeat_that_is_newer_than_it(
    writer: MirrorWriter, reading: Callable[..., Any], key: str, until: Until
) -> None:
    """A recording of an earlier time has no new heartbeats."""
    await writer.begin({"pods": PODS})
    async with reading(key=key) as reader:
        await until(lambda: reader.complete)
        assert "since the picture was loaded" in reader.doubt
        await verified(reader, writer)
        last = await writer.apply([Change("pods", "new", b"1")])
        await reader.wait_for(last, 60)
        assert not reader.doubt, "each write proves itself"


async def test_forged_entries_and_a_reset_never_get_into_the_picture(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    until: Until,
) -> None:
    """Twenty pods and a reset: dropped at once, counted, and the watcher takes them off."""
    await begun(writer)
    async with reading(key=key) as reader:
        await verified(reader, writer)
        for number in range(20):
            await redis.hset(names.objects("pods"), f"forged-{number}", json.dumps({"n": number}))
        await forge(redis, names, "reset", epoch=reader.epoch, generation=reader.generation)
        await until(lambda: reader.rejected >= 20)
        assert reader.kinds["pods"] == PODS
        with pytest.raises(MirrorLost):  # it counts what the hashes hold
            await writer.heartbeat(SOUND)
        await begun(writer)
        await verified(reader, writer)
        assert await redis.hlen(names.objects("pods")) == len(PODS)


async def test_a_forged_put_on_the_stream_changes_nothing(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    until: Until,
) -> None:
    """And the watcher's next change fits as if it had never been there."""
    await begun(writer)
    async with reading(key=key) as reader:
        await verified(reader, writer)
        forged = {"kind": "pods", "key": "x", "body": b"0" * 40}
        await forge(redis, names, "put", generation=reader.generation + 1, **forged)
        await until(lambda: reader.rejected == 1)
        assert reader.doubt
        last = await writer.apply([Change("pods", "p0", b"2")])
        await reader.wait_for(last, 60)
        assert reader.kinds["pods"] == PODS | {"p0": b"2"}
        assert (reader.doubt, reader.loads) == ("", 1)


@pytest.mark.parametrize("told", [True, False], ids=["on the stream", "in the hash"])
async def test_forged_deletions_are_noticed_and_healed(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    until: Until,
    told: bool,
) -> None:
    """A deletion with the tag of an old one is taken for real until the next heartbeat."""
    await begun(writer)
    await writer.apply([Change("pods", "p1", None)])
    newest: Any = await redis.xrevrange(names.stream, count=1)
    (_, fields), *_ = newest
    recorded = dict(zip(fields[::2], fields[1::2], strict=True))[b"body"]
    await writer.apply([Change("pods", "p1", b"back")])
    async with reading(key=key) as reader:
        await verified(reader, writer)
        await redis.hdel(names.objects("pods"), "p1")
        if told:
            await redis.incr(names.generation)
            forged = {"kind": "pods", "key": "p1", "body": recorded}
            await forge(redis, names, "delete", generation=reader.generation + 1, **forged)
        else:
            await forge(redis, names, "reset")
        await until(lambda: "p1" not in reader.kinds["pods"])
        assert reader.doubt, "nothing may be decided on this"
        await heal(writer)
        await verified(reader, writer)
        assert set(reader.kinds["pods"]) == set(PODS)


async def test_an_old_body_that_is_written_again_is_noticed(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    until: Until,
) -> None:
    """Its tag is right, the sum is not."""
    await begun(writer)
    old = await redis.hget(names.objects("pods"), "p3")
    await writer.apply([Change("pods", "p3", b"newer")])
    async with reading(key=key) as reader:
        await verified(reader, writer)
        await redis.hset(names.objects("pods"), "p3", old)
        await forge(redis, names, "reset")
        await until(lambda: "is not what the watcher wrote" in reader.doubt)
        await until(lambda: redis.exists(names.heal))
        assert reader.kinds["pods"]["p3"] == PODS["p3"], "a right tag: only the sum tells"
        assert not await writer.heartbeat(SOUND), "the reader asks for healing"
        await begun(writer)
        await verified(reader, writer)


async def test_a_whole_kind_that_vanished_is_noticed(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    until: Until,
) -> None:
    """Whoever looks only at what is there would not miss it."""
    await begun(writer)
    await redis.delete(names.objects("pods"))
    await redis.srem(names.kinds, "pods")
    async with reading(key=key) as reader:
        await until(lambda: "the picture of pods" in reader.doubt)


async def test_heartbeats_of_others_do_not_make_the_picture_younger(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    until: Until,
) -> None:
    """Neither a new time nor an old heartbeat shows that the watcher lives."""
    clock = SystemClock()
    await begun(writer)
    async with reading(key=key) as reader:
        await verified(reader, writer)
        recorded = await redis.get(names.seal)
        at = clock.monotonic()
        await redis.set(names.heartbeat, 1 << 50)
        await forge(redis, names, "heartbeat", generation=reader.generation, seal=recorded)
        await forge(redis, names, "heartbeat", generation=reader.generation, seal="{}")
        await until(lambda: reader.rejected == 2)
        assert reader.age(at + 100) >= 100


async def test_a_reader_with_another_key_takes_nothing_and_says_why(
    writer: MirrorWriter, reading: Callable[..., Any], until: Until
) -> None:
    """The fix is in the text."""
    await begun(writer)
    async with reading(key="another") as reader:
        await until(lambda: reader.complete)
        assert reader.kinds == {"pods": {}, "nodes": {}}
        assert "is MIRROR_KEY the same" in reader.doubt
        assert reader.position("pods", 0.0) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["epoch", "generation", "complete", "kinds", "stream", "seal"])
async def test_keys_of_another_type_do_not_stop_the_watcher(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    name: str,
) -> None:
    """Whatever was written there, the mirror is begun anew over it."""
    await begun(writer)
    broken = getattr(names, name)
    await redis.delete(broken)
    await redis.hset(broken, "a", "b")
    if name != "seal":
        with pytest.raises(MirrorLost):
            await writer.apply([Change("pods", "new", b"1")])
    await begun(writer)
    async with reading(key=key) as reader:
        await verified(reader, writer)
        assert reader.kinds["pods"] == PODS


@pytest.mark.slow
@pytest.mark.parametrize("forged", ["many", "-7", str((1 << 53) + 1), "1e400"])
async def test_no_forged_generation_stops_the_watcher(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    forged: Any,
) -> None:
    """Numbers go on from the writer's own."""
    await begun(writer)
    await redis.set(names.generation, forged)
    with pytest.raises(MirrorLost):
        await writer.heartbeat(SOUND)
    generation = await begun(writer)
    async with reading(key=key) as reader:
        await verified(reader, writer)
        assert reader.generation == generation


async def test_positions_arrive_with_what_they_speak_of(
    writer: MirrorWriter, reading: Callable[..., Any], key: str, until: Until
) -> None:
    """A position is adopted at the generation of its heartbeat; its age grows meanwhile."""
    clock = SystemClock()
    await begun(writer)
    async with reading(key=key) as reader:
        await until(lambda: reader.complete)
        assert reader.position("pods", clock.monotonic()) is None
        await writer.apply([Change("pods", "late", b"1")])
        await writer.heartbeat({"pods": Position("7", False, 3.0)})
        await until(lambda: bool(reader.watched()))
        assert "late" in reader.kinds["pods"]
        told = reader.position("pods", clock.monotonic() + 10)
        assert told is not None
        assert (told.version, told.sound) == ("7", False)
        assert 13.0 <= told.seconds < 60


async def test_an_unconfirmed_write_is_not_vouched_for(
    writer: MirrorWriter,
    redis: Redis,
    names: MirrorKeys,
    reading: Callable[..., Any],
    key: str,
    until: Until,
) -> None:
    """F1: a lost answer leaves open what the mirror holds, until the change was written again."""
    await begun(writer)
    async with reading(key=key) as reader:
        await verified(reader, writer)
        writer._unsure.add(("pods", "p1"))  # as when the answer to this write was lost
        assert await writer.heartbeat(SOUND)
        last = await writer.apply([Change("pods", "p2", b"2")])
        await reader.wait_for(last, 60)
        assert reader.doubt
        await writer.apply([Change("pods", "p1", b"1")])
        await verified(reader, writer)


@pytest.mark.parametrize(
    ("position", "version", "reached"),
    [("9", "9", True), ("10", "9", True), ("9", "10", False), ("", "1", False),
     ("a", "a", False), ("9", "", False)],
)  # fmt: skip
def test_a_position_reaches_versions_by_number(position: str, version: str, reached: bool) -> None:
    """Versions that are no numbers cannot be ordered: then nothing is taken for reached."""
    assert Position(position, True, 0.0).reached(version) is reached


def test_a_reader_that_saw_nothing_is_in_doubt() -> None:
    reader = MirrorReader("redis://nowhere.invalid", "t", clock=SystemClock())
    assert reader.doubt
    assert reader.doubtful_seconds(SystemClock().monotonic() + 9) >= 9
