"""The history of shortages outlives its Redis, and clusters share it if they wish, on real Redis and real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from services.scheduler.state.shortage_keeper import ShortageKeeper
from shared.domain.instance_types.shortage_records import (
    ShortageRecord,
    decoded,
    encoded,
    record_name,
    scores_of,
)
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.shortages import HALF_LIVES, SHARED_SECONDS
from shared.runtime.archive.opening import open_store
from tests.support.clock.fake import FakeClock
from tests.support.redis.shortages import DAY, OTHER, SPOT, at_the_start_of_a_day, make_history


@pytest.fixture
def clock() -> FakeClock:
    return at_the_start_of_a_day()


class Cluster:
    """The history and the keeper of one cluster."""

    def __init__(
        self, redis: Redis, prefix: str, clock: FakeClock, folder: Path, name: str, shares: bool
    ) -> None:
        store = str(folder) if shares else ""
        self.history = make_history(redis, f"{prefix}{name}:", clock, store=store)
        self.keeper = ShortageKeeper(
            open_store(str(folder)), name, self.history, DAY, clock, shares
        )


@pytest.fixture
def made(bus: Bus, clock: FakeClock, tmp_path: Path) -> Any:
    def make(name: str = "one", *, shares: bool = False) -> Cluster:
        return Cluster(bus.redis, bus.prefix, clock, tmp_path, name, shares)

    return make


async def lose(bus: Bus) -> None:
    """What Redis had is gone."""
    await bus.redis.delete(*await bus.redis.keys(f"{bus.prefix}*"))


async def test_a_redis_that_lost_the_history_gets_it_back(
    made: Any, bus: Bus, clock: FakeClock
) -> None:
    """Also from a scheduler that never saw the lost one; with the age that it has."""
    before = made()
    await before.history.add([SPOT, OTHER])
    await before.history.add([SPOT])
    await before.keeper.step()
    clock.advance(DAY)
    await before.history.add([SPOT])
    await before.keeper.step()
    scores = await before.history.scores()
    assert scores == {SPOT: 2.0, OTHER: 0.5}
    await lose(bus)
    after = made()
    await after.keeper.step()
    assert await after.history.scores() == scores
    await after.keeper.step()
    assert await after.history.scores() == scores, "it is given back once"


async def test_the_scheduler_that_runs_gives_it_back_too(made: Any, bus: Bus) -> None:
    cluster = made()
    await cluster.history.add([SPOT])
    await cluster.keeper.step()
    await lose(bus)
    await cluster.keeper.step()
    assert await cluster.history.scores() == {SPOT: 1.0}


async def test_what_is_too_old_is_not_given_back(made: Any, bus: Bus, clock: FakeClock) -> None:
    cluster = made()
    await cluster.history.add([SPOT])
    await cluster.keeper.step()
    await lose(bus)
    clock.advance(DAY * HALF_LIVES)
    await made().keeper.step()
    assert await cluster.history.scores() == {}


async def test_clusters_that_share_a_store_learn_from_each_other(
    made: Any, clock: FakeClock
) -> None:
    """A third one that keeps its history there for itself learns nothing."""
    one, two, alone = made("one", shares=True), made("two", shares=True), made("three")
    await one.history.add([SPOT])
    await two.history.add([SPOT, OTHER])
    for cluster in (one, two, alone, one):
        await cluster.keeper.step()
    assert await one.history.scores() == {SPOT: 2.0, OTHER: 1.0}
    assert await two.history.scores() == {SPOT: 2.0, OTHER: 1.0}
    assert await alone.history.scores() == {}
    clock.advance(DAY)
    await one.keeper.step()
    assert await one.history.scores() == {SPOT: 1.0, OTHER: 0.5}


async def test_what_others_found_ends_when_nobody_looks_any_more(made: Any, bus: Bus) -> None:
    one, two = made("one", shares=True), made("two", shares=True)
    await two.history.add([SPOT])
    await two.keeper.step()
    await one.keeper.step()
    assert 0 < await bus.redis.ttl(f"{bus.prefix}one:shortages:shared") <= SHARED_SECONDS


async def test_a_store_that_fails_stops_nothing_and_wrong_objects_are_passed_over(
    made: Any, tmp_path: Path
) -> None:
    cluster = made("one", shares=True)
    for name, text in (("two", "{"), ("three", '{"cluster": 5}'), ("four", "[]")):
        path = tmp_path / record_name(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    await cluster.history.add([SPOT])
    await cluster.keeper.step()
    assert await cluster.history.scores() == {SPOT: 1.0}
    (tmp_path / record_name("one")).unlink()
    (tmp_path / record_name("one")).mkdir()
    await cluster.history.add([SPOT])
    await cluster.keeper.step()
    assert await cluster.history.scores() == {SPOT: 2.0}


def test_a_record_is_read_as_it_was_written_and_counts_by_its_own_half_life() -> None:
    record = ShortageRecord.of("one", 3600.0, {10: {"spot:m5.large:us-west-2a": 4}, 11: {}})
    assert decoded(encoded(record)) == record
    assert record.numbered() == {10: {"spot:m5.large:us-west-2a": 4}}
    assert scores_of([record], now=10 * 3600.0 + DAY, half_life=DAY) == {SPOT: 2.0}
    odd = ShortageRecord("one", 3600.0, {"x": {"a:b:c": 1}, "1": {"a": 1, "a:b:c": -1}})
    assert scores_of([odd], now=0.0, half_life=DAY) == {}
    assert decoded(b"x" * (5 * 2**20)) is None
