"""When a termination that waits takes its next step: as the mirror's stream shows changes (TRM-05, R8)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.terminator.waiting.changes import (
    BLIND_SECONDS,
    LOOK_SECONDS,
    MOST_OBJECTS,
    READ_BATCH,
    SILENT_SECONDS,
    ChangeIndex,
    Mark,
    MirrorChanges,
)
from services.terminator.waiting.step import Wait
from shared.domain.workloads.pods import Pod
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from shared.redis.mirror import Change, MirrorWriter
from shared.redis.mirror.integrity.digests import Digester
from tests.support.clock.fake import FakeClock
from tests.support.waiting import wait_until

NODE, MACHINE, POD = ("nodes", "n1"), ("machines", "NodeClaim/m1"), ("pods", "default/web")
WAIT = Wait(until=1e9, node="n1", objects=frozenset([NODE, MACHINE, POD]))
DIGESTER = Digester()


def pod_on(node: str, name: str = "web") -> bytes:
    return msgspec.json.encode(Pod(uid=name, name=name, namespace="default", node_name=node))


def entry(generation: int, kind: str = "", key: str = "", body: bytes = b"") -> dict[bytes, Any]:
    """An entry of the stream; without a kind a heartbeat, without a body a deletion."""
    if not kind:
        return {b"op": b"heartbeat", b"generation": b"%d" % generation}
    return {
        b"op": b"put" if body else b"delete",
        b"kind": kind.encode(),
        b"key": key.encode(),
        b"generation": b"%d" % generation,
        b"body": DIGESTER.entry(kind, key, body).tag + body,
    }


@pytest.fixture
def index() -> ChangeIndex:
    found = ChangeIndex()
    found.add(entry(7))
    return found


@pytest.mark.parametrize(
    "change",
    [
        ("nodes", "n1", b"{}"),
        ("nodes", "n1"),
        ("machines", "NodeClaim/m1", b"{}"),
        ("pods", "default/web"),
        ("pods", "default/new", pod_on("n1", "new")),
    ],
)
def test_a_change_of_machine_node_or_pods_is_seen(index: ChangeIndex, change: Any) -> None:
    before = index.number
    index.add(entry(8, *change))
    assert index.touched(WAIT, before)
    assert not index.touched(WAIT, index.number), "seen by the step that began after it"


@pytest.mark.parametrize(
    "change",
    [
        ("nodes", "n2", b"{}"),
        ("machines", "NodeClaim/m2"),
        ("pods", "default/other", pod_on("n2", "other")),
        ("pods", "default/other", b"not JSON"),
        ("pods", "other/web"),
    ],
)
def test_a_change_of_another_object_is_none(index: ChangeIndex, change: Any) -> None:
    before = index.number
    index.add(entry(8, *change))
    assert not index.touched(WAIT, before)


@pytest.mark.parametrize(
    "gap",
    [
        entry(8),
        entry(9, "nodes", "n2", b"{}"),
        entry(7, "nodes", "n2", b"{}"),
        {b"op": b"reset", b"generation": b"8"},
        {b"op": b"put", b"generation": b"eight"},
        {},
    ],
)
def test_where_entries_may_be_missing_everything_counts_as_changed(
    index: ChangeIndex, gap: dict[bytes, Any]
) -> None:
    before = index.number
    index.add(gap)
    assert index.touched(WAIT, before)
    assert not index.touched(WAIT, index.number)


def test_it_remembers_a_bounded_number_of_objects(index: ChangeIndex) -> None:
    for number in range(MOST_OBJECTS + 1):
        index.add(entry(8 + number, "nodes", f"other-{number}", b"{}"))
    assert len(index._last) <= MOST_OBJECTS
    assert index.touched(WAIT, 1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def writer(bus: Bus) -> MirrorWriter:
    made = MirrorWriter(bus.redis, bus.prefix, "epoch")
    await made.begin({"pods": {"default/web": pod_on("n1")}})
    return made


async def is_due(changes: MirrorChanges, clock: FakeClock, since: Mark) -> bool:
    clock.advance(LOOK_SECONDS)
    return await changes.due(WAIT, since)


async def following(bus: Bus, clock: FakeClock, writer: MirrorWriter) -> MirrorChanges:
    """From now on it knows every change."""
    changes = MirrorChanges(bus, clock)
    start = changes.mark()
    assert not await is_due(changes, clock, start), "it has been no time since the last step"
    clock.advance(BLIND_SECONDS)
    assert await is_due(changes, clock, start), "nothing is known yet"
    await beating(changes, clock, writer)
    return changes


async def beating(changes: MirrorChanges, clock: FakeClock, writer: MirrorWriter) -> None:
    """The watcher is alive, and the mirror's changes are known."""

    long_ago = clock.seconds - BLIND_SECONDS

    async def knows() -> bool:
        await writer.heartbeat()
        return not await is_due(changes, clock, Mark(changes.index.number, long_ago))

    await wait_until(knows, "a mirror that is followed")


async def test_only_a_change_makes_the_next_step_due(
    bus: Bus, clock: FakeClock, writer: MirrorWriter
) -> None:
    changes = await following(bus, clock, writer)
    before = changes.mark()
    await writer.apply([Change("pods", "default/other", pod_on("n2", "other"))])
    assert not await is_due(changes, clock, before)
    await writer.apply([Change("pods", "default/web", None)])
    assert not await changes.due(WAIT, before), "the stream is read twice a second at most"
    assert await is_due(changes, clock, before)
    assert not await is_due(changes, clock, changes.mark())


async def test_a_mirror_that_is_silent_or_written_anew_proves_nothing(
    bus: Bus, clock: FakeClock, writer: MirrorWriter
) -> None:
    changes = await following(bus, clock, writer)
    before = changes.mark()
    await writer.begin({})
    assert await is_due(changes, clock, before)
    changes = await following(bus, clock, writer)
    last = changes.mark()
    while clock.seconds - changes._heard <= SILENT_SECONDS:
        assert not await changes.due(WAIT, last)
        clock.advance(LOOK_SECONDS)
    assert await changes.due(WAIT, last)
    await beating(changes, clock, writer)


async def test_more_changes_than_one_read_takes_are_not_worked_off(
    bus: Bus, clock: FakeClock, writer: MirrorWriter
) -> None:
    changes = await following(bus, clock, writer)
    before = changes.mark()
    many = [Change("pods", f"x/{number}", b"{}") for number in range(READ_BATCH)]
    await writer.apply(many)
    assert await is_due(changes, clock, before)


async def test_without_redis_every_step_is_due(
    bus: Bus, clock: FakeClock, writer: MirrorWriter
) -> None:
    changes = await following(bus, clock, writer)
    await call(bus.redis, "break the stream", "SET", f"{bus.prefix}cluster", "no stream")
    before = changes.mark()
    clock.advance(BLIND_SECONDS)
    assert await is_due(changes, clock, before)


async def test_its_own_time_makes_the_next_step_due(
    bus: Bus, clock: FakeClock, writer: MirrorWriter
) -> None:
    changes = await following(bus, clock, writer)
    assert await changes.due(Wait(until=clock.seconds), changes.mark())
    assert not await changes.due(Wait(until=clock.seconds + 1), changes.mark())
