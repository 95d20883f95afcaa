"""Writer and readers of the mirror on a real Redis (docs/spec/design.md, SVC-03, OPS-13)."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from shared.concurrency.clock import SystemClock
from shared.errors import InvalidObject, Unavailable
from shared.redis.mirror import Change, MirrorLost, MirrorReader, MirrorWriter, difference
from tests.shared.redis.mirror.conftest import Until
from tests.support.waiting import PATIENCE_SECONDS, wait_until


async def test_a_reader_loads_the_snapshot(
    writer: MirrorWriter, reading: Callable[..., Any]
) -> None:
    """Every kind of the snapshot, complete, at the writer's generation."""
    snapshot = {"Pod": {"a/b": b"1", "a/c": b"2"}, "Node": {"n": b"3"}, "Machine": {}}
    generation = await writer.begin(snapshot)
    async with reading() as reader:
        await reader.wait_for(generation, 60)
        assert reader.kinds == snapshot
        assert reader.complete
        assert reader.behind == 0


async def test_a_reader_sees_every_change_in_order(
    writer: MirrorWriter, reading: Callable[..., Any]
) -> None:
    """1,000 changes, each with the next generation, and the same end state."""
    seen: list[Change] = []
    expected: dict[str, bytes] = {}
    chance = random.Random(3)
    start = await writer.begin({"Pod": {}})
    async with reading(seen.append) as reader:
        await reader.wait_for(start, 60)
        changes = []
        for number in range(1000):
            key = f"p{chance.randrange(50)}"
            body = b"%d" % number if chance.random() < 0.7 else None
            changes.append(Change("Pod", key, body))
            if body is None:
                expected.pop(key, None)
            else:
                expected[key] = body
        for first in range(0, 1000, 20):
            last = await writer.apply(changes[first : first + 20])
        await reader.wait_for(last, 60)
        assert reader.kinds["Pod"] == expected
        assert reader.loads == 1
    assert [change.generation for change in seen] == list(range(start + 1, start + 1001))
    assert [(change.key, change.body) for change in seen] == [
        (change.key, change.body) for change in changes
    ]


async def test_a_reader_that_joins_in_the_middle_of_writing_ends_equal(
    writer: MirrorWriter, reading: Callable[..., Any]
) -> None:
    """The load is one script: hashes, generation and stream position belong together."""
    await writer.begin({"Pod": {}})

    async def write() -> int:
        last = 0
        for number in range(300):
            last = await writer.apply([Change("Pod", f"p{number % 40}", b"%d" % number)])
        return last

    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(write())
        for _ in range(5):
            async with reading() as reader:
                await reader.wait_for(2, 60)
    async with reading() as reader:
        await reader.wait_for(writing.result(), 60)
        assert reader.kinds["Pod"] == {f"p{n % 40}": b"%d" % n for n in range(260, 300)}


async def test_more_changes_than_one_step_are_written_in_steps(
    writer: MirrorWriter, reading: Callable[..., Any]
) -> None:
    """apply() takes any number; a step holds 500."""
    await writer.begin({"Pod": {}})
    last = await writer.apply([Change("Pod", f"p{n}", b"x") for n in range(1201)])
    assert last == 1202
    async with reading() as reader:
        await reader.wait_for(last, 60)
        assert len(reader.kinds["Pod"]) == 1201


async def test_a_reader_of_some_kinds_ignores_the_others(
    writer: MirrorWriter, reading: Callable[..., Any]
) -> None:
    """The generation still follows every entry."""
    seen: list[Change] = []
    await writer.begin({"Pod": {"p": b"1"}, "Node": {"n": b"1"}})
    async with reading(seen.append, kinds={"Node"}) as reader:
        last = await writer.apply([Change("Pod", "q", b"2"), Change("Node", "m", b"2")])
        await reader.wait_for(last, 60)
        assert reader.kinds == {"Node": {"n": b"1", "m": b"2"}}
    assert {change.kind for change in seen} == {"Node"}


async def test_the_writer_notices_flushall_and_readers_recover(
    writer: MirrorWriter, redis: Redis, reading: Callable[..., Any], until: Until
) -> None:
    """F9: MirrorLost, begin again; the listener hears only what really changed."""
    seen: list[Change] = []
    first = await writer.begin({"Pod": {"keep": b"1", "goes": b"1"}})
    async with reading(seen.append) as reader:
        await reader.wait_for(first, 60)
        del seen[:]
        await redis.flushall()
        with pytest.raises(MirrorLost):
            await writer.apply([Change("Pod", "new", b"1")])
        with pytest.raises(MirrorLost):
            await writer.heartbeat()
        again = await writer.begin({"Pod": {"keep": b"1", "new": b"1"}})
        assert again > first
        await until(lambda: reader.generation == again)
        assert reader.kinds == {"Pod": {"keep": b"1", "new": b"1"}}
        assert [(change.key, change.body) for change in seen] == [("goes", None), ("new", b"1")]
        last = await writer.apply([Change("Pod", "keep", None)])
        await reader.wait_for(last, 60)
        assert reader.kinds == {"Pod": {"new": b"1"}}


@pytest.mark.slow
async def test_a_lost_mirror_is_not_complete(
    writer: MirrorWriter, redis: Redis, reading: Callable[..., Any], until: Until
) -> None:
    """OPS-13: nobody plans on a mirror that is gone; the old objects stay for display."""
    generation = await writer.begin({"Pod": {"p": b"1"}})
    async with reading() as reader:
        await reader.wait_for(generation, 60)
        await redis.flushall()
        await until(lambda: not reader.complete)
        assert reader.kinds == {"Pod": {"p": b"1"}}
        with pytest.raises(Unavailable, match="generation"):
            await reader.wait_for(generation, 0.01)


@pytest.mark.slow
async def test_a_second_writer_takes_over_and_the_first_is_fenced(
    writer: MirrorWriter, redis: Redis, prefix: str, reading: Callable[..., Any]
) -> None:
    """F14: the older incarnation cannot write any more."""
    await writer.begin({"Pod": {"old": b"1"}})
    async with reading() as reader:
        await reader.wait_for(1, 60)
        second = MirrorWriter(redis, prefix, "epoch-b")
        taken = await second.begin({"Node": {"n": b"1"}})
        with pytest.raises(MirrorLost):
            await writer.apply([Change("Pod", "late", b"1")])
        await reader.wait_for(taken, 60)
        assert reader.kinds.get("Pod", {}) == {}
        assert reader.kinds["Node"] == {"n": b"1"}
        assert reader.epoch.startswith("epoch-b")


async def test_a_reader_that_fell_behind_a_trimmed_stream_loads_again(
    redis: Redis, prefix: str, redis_url: str, until: Until
) -> None:
    """F11: a gap in the generations is noticed, whatever was trimmed."""
    writer = MirrorWriter(redis, prefix, "epoch-a")
    generation = await writer.begin({"Pod": {}})
    reader = MirrorReader(redis_url, prefix, clock=SystemClock(), block_milliseconds=20)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reader.run(stop))
        await reader.wait_for(generation, 60)
        # The reader's connection breaks; until it is back the stream loses what it has not read.
        await redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await writer.apply([Change("Pod", "p", b"1")])
        last = await writer.apply([Change("Pod", "q", b"2")])
        await redis.xtrim(f"{prefix}cluster", maxlen=1, approximate=False)
        await reader.wait_for(last, 60)
        assert reader.kinds == {"Pod": {"p": b"1", "q": b"2"}}
        assert reader.loads == 2
        stop.set()


async def test_the_age_follows_the_heartbeat(
    writer: MirrorWriter, redis: Redis, prefix: str, reading: Callable[..., Any], until: Until
) -> None:
    """docs/spec/design.md: a stale mirror must show its age, also to a reader that just came."""
    clock = SystemClock()
    await writer.begin({"Pod": {}})
    async with reading() as reader:
        assert reader.age(clock.monotonic()) == math.inf
        await until(lambda: reader.complete)
        assert reader.age(clock.monotonic()) < 60
        assert reader.age(clock.monotonic() + 100) >= 100
    seconds = int((await redis.time())[0])
    await redis.set(f"{prefix}mirror:heartbeat", (seconds - 90) * 1000)
    async with reading() as reader:
        await until(lambda: reader.complete)
        assert reader.age(clock.monotonic()) >= 89
        await writer.heartbeat()
        await until(lambda: reader.age(clock.monotonic()) < 60)


async def test_begin_again_removes_what_is_gone(
    writer: MirrorWriter, redis: Redis, prefix: str, reading: Callable[..., Any]
) -> None:
    """Kinds and objects that the new snapshot lacks disappear, no staging key stays."""
    await writer.begin({"Pod": {"a": b"1", "b": b"1"}, "Lease": {"l": b"1"}})
    last = await writer.begin({"Pod": {"b": b"2"}})
    async with reading() as reader:
        await reader.wait_for(last, 60)
        assert reader.kinds == {"Pod": {"b": b"2"}}
    assert await redis.keys(f"{prefix}mirror:staging:*") == []
    assert await redis.ttl(f"{prefix}mirror:Pod") == -1


async def test_an_oversized_record_is_refused_before_anything_is_written(
    writer: MirrorWriter, reading: Callable[..., Any]
) -> None:
    """The message names the object; nothing of the batch is written."""
    await writer.begin({"Pod": {}})
    with pytest.raises(InvalidObject, match=r"Pod\[huge\]"):
        await writer.apply([Change("Pod", "a", b"1"), Change("Pod", "huge", b"x" * 1_048_577)])
    async with reading() as reader:
        await reader.wait_for(1, 60)
        assert reader.kinds == {"Pod": {}}


async def test_ten_thousand_objects_load_completely(
    writer: MirrorWriter, reading: Callable[..., Any]
) -> None:
    """docs/spec/design.md: 10,000 pods. How fast is measured, not asserted."""
    snapshot = {"Pod": {f"ns/p{n}": b"x" * 1000 for n in range(10_000)}}
    generation = await writer.begin(snapshot)
    async with reading() as reader:
        await reader.wait_for(generation, 60)
        assert reader.kinds == snapshot


_objects = st.dictionaries(
    st.sampled_from(["Pod", "Node"]),
    st.dictionaries(st.sampled_from("abcd"), st.binary(max_size=2), max_size=4),
)


@given(_objects, _objects)
def test_applying_the_difference_leads_from_old_to_new(old: Any, new: Any) -> None:
    """What on_change hears across a reload is exactly what changed."""
    state = {kind: dict(objects) for kind, objects in old.items()}
    for change in difference(old, new, 7):
        objects = state.setdefault(change.kind, {})
        assert objects.get(change.key) != change.body
        if change.body is None:
            del objects[change.key]
        else:
            objects[change.key] = change.body
    assert {k: v for k, v in state.items() if v} == {k: v for k, v in new.items() if v}


async def test_a_stop_does_not_wait_for_the_next_entry(
    redis_url: str, prefix: str, writer: MirrorWriter
) -> None:
    """F29: however long a read blocks."""
    await writer.begin({"pods": {"a": b"1"}})
    patient = MirrorReader(
        redis_url, prefix, clock=SystemClock(), block_milliseconds=round(PATIENCE_SECONDS * 1000)
    )
    stop = asyncio.Event()
    async with asyncio.timeout(PATIENCE_SECONDS / 2), asyncio.TaskGroup() as group:
        group.create_task(patient.run(stop))
        await wait_until(lambda: patient.complete, "the first load")
        stop.set()
