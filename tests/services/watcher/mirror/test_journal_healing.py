"""The watcher keeps the mirror its own, and tells how far it is (OPS-13)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.watcher.mirror.journal import RENEW_SECONDS, Journal
from shared.concurrency.clock import SystemClock
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorReader, MirrorWriter, Position
from shared.redis.mirror.change import MirrorKeys
from tests.services.conftest import Published
from tests.services.watcher.mirror.test_journal import note, pods_of, running
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_pod
from tests.support.waiting import wait_until

KEY = "a secret of the test"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def journal(bus: Bus, clock: FakeClock) -> Journal:
    return Journal(MirrorWriter(bus.redis, bus.prefix, epoch="a"), bus, clock)


@pytest.fixture
async def reader(journal: Journal, bus: Bus, redis_url: str) -> AsyncIterator[MirrorReader]:
    """Of a mirror with one pod that waits."""
    async with running(journal, bus, redis_url) as reader:
        note(journal, "pods", make_pod("waits"))
        await wait_until(lambda: "default/waits" in pods_of(reader), "the pod")
        await journal.heartbeat()
        assert await reader.wait_until_verified(60)
        yield reader


async def beating(journal: Journal, clock: FakeClock, reader: MirrorReader) -> None:
    """Heartbeats until the reader trusts its picture."""

    async def verified() -> bool:
        clock.advance(RENEW_SECONDS)
        await journal.heartbeat()
        return await reader.wait_until_verified(0.2)

    await wait_until(verified, "a verified picture", show=lambda: reader.doubt)


async def test_foreign_entries_are_taken_off_with_the_next_heartbeat(
    journal: Journal, bus: Bus, reader: MirrorReader, clock: FakeClock
) -> None:
    """Also when no reader has looked at them: there are more than were written."""
    pods = MirrorKeys(bus.prefix).objects("pods")
    await bus.redis.hset(pods, "default/forged", "{}")
    await journal.heartbeat()
    assert not journal.begun
    await wait_until(lambda: journal.begun, "the mirror anew")
    await beating(journal, clock, reader)
    assert await bus.redis.hkeys(pods) == [b"default/waits"]


async def test_an_old_entry_is_overwritten_when_a_reader_asks(
    journal: Journal, bus: Bus, reader: MirrorReader, clock: FakeClock, published: Published
) -> None:
    """As many as were written, and all of them ours once: only readers notice. Nobody is told anything anew."""
    names = MirrorKeys(bus.prefix)
    old = await bus.redis.hget(names.objects("pods"), "default/waits")
    note(journal, "pods", make_pod("waits", labels={"new": "yes"}), 2)
    await wait_until(lambda: journal.backlog == 0 and not journal.unannounced, "the change")
    told = len(await published(streams.PODS))
    await bus.redis.hset(names.objects("pods"), "default/waits", old)
    await bus.redis.xadd(names.stream, {"op": "reset"})
    await wait_until(lambda: bus.redis.exists(names.heal), "the reader asks")
    await beating(journal, clock, reader)
    assert pods_of(reader)["default/waits"].labels == {"new": "yes"}
    assert len(await published(streams.PODS)) == told


async def test_who_asks_all_the_time_does_not_keep_the_watcher_busy(
    journal: Journal, bus: Bus, reader: MirrorReader, clock: FakeClock
) -> None:
    """Anybody may set that key."""
    heal = MirrorKeys(bus.prefix).heal
    clock.advance(RENEW_SECONDS)
    before = reader.epoch
    for _ in range(5):
        await bus.redis.set(heal, "1")
        await journal.heartbeat()
    await wait_until(lambda: reader.epoch != before, "the mirror anew")
    number = int(reader.epoch.rpartition(".")[2])
    assert number == int(before.rpartition(".")[2]) + 1


async def test_a_position_is_told_when_all_before_it_is_written(
    journal: Journal, reader: MirrorReader
) -> None:
    """What waits to be written holds the position back; whether the watch is sound does not wait."""
    told = {"pods": Position("10", sound=True, seconds=0.0)}
    journal.positions = lambda: told
    await journal.heartbeat()
    await wait_until(lambda: reader.has_reached("pods", "10"), "the first position")
    note(journal, "pods", make_pod("later"), 11)
    told = {"pods": Position("11", sound=False, seconds=4.0)}
    positions = journal._positions_written()
    assert (positions["pods"].version, positions["pods"].sound) == ("10", False)
    await wait_until(lambda: journal.backlog == 0, "the change is written")
    await journal.heartbeat()
    await wait_until(lambda: reader.has_reached("pods", "11"), "the second position")
    assert "default/later" in reader.kinds["pods"]


async def test_a_watch_that_breaks_is_told_at_once(journal: Journal, reader: MirrorReader) -> None:
    """Not with the next heartbeat, two seconds later."""
    told = {"pods": Position("10", sound=True, seconds=0.0)}
    journal.positions = lambda: told
    await journal.tick()
    await wait_until(lambda: reader.watched() == ["pods"], "the first heartbeat")
    number = journal.writer._number
    await journal.tick()
    assert journal.writer._number == number, "it is not time yet"
    told = {"pods": Position("10", sound=False, seconds=1.0)}
    await journal.tick()

    def broken() -> bool:
        position = reader.position("pods", SystemClock().monotonic())
        return position is not None and not position.sound

    await wait_until(broken, "the news")
