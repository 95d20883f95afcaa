"""The shortage history: shared, counted without loss, bounded in time, and never in anybody's way."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from shared.domain import labels as keys
from shared.redis.mirror.catalogue.shortages import HALF_LIVES, KEPT_SECONDS
from tests.support.clock.fake import FakeClock
from tests.support.redis.shortages import DAY, OTHER, SPOT, at_the_start_of_a_day, make_history


@pytest.fixture
def clock() -> FakeClock:
    return at_the_start_of_a_day()


async def test_another_service_reads_what_one_wrote(
    redis: Redis, prefix: str, clock: FakeClock
) -> None:
    """And so does the same service after a restart."""
    writers = [make_history(redis, prefix, clock) for _ in range(5)]
    await asyncio.gather(*(one.add([SPOT, OTHER]) for one in writers))
    await writers[0].add([SPOT])
    assert await make_history(redis, prefix, clock).scores() == {SPOT: 6.0, OTHER: 5.0}


async def test_a_shortage_counts_half_after_its_half_life_and_ends(
    redis: Redis, prefix: str, clock: FakeClock
) -> None:
    shortages = make_history(redis, prefix, clock)
    await shortages.add([SPOT])
    clock.advance(DAY)
    assert await shortages.scores() == {SPOT: 0.5}
    await shortages.add([SPOT])
    assert await shortages.scores() == {SPOT: 1.5}
    clock.advance(DAY * HALF_LIVES)
    assert await shortages.scores() == {}
    keys_of_it = await redis.keys(f"{prefix}shortages:*")
    (lifetime,) = {await redis.ttl(key) for key in keys_of_it}
    assert 0 < lifetime <= DAY * (HALF_LIVES + 1) + 1


async def test_reserved_capacity_and_no_half_life_leave_no_history(
    redis: Redis, prefix: str, clock: FakeClock
) -> None:
    """How much a reservation has left EC2 says itself."""
    await make_history(redis, prefix, clock).add([(keys.RESERVED, "m5.large", "us-west-2a")])
    off = make_history(redis, prefix, clock, half_life=0.0)
    await off.add([SPOT])
    assert await off.current() == ()
    assert await redis.keys(f"{prefix}shortages:*") == []


async def test_the_worst_are_shown_first(redis: Redis, prefix: str, clock: FakeClock) -> None:
    shortages = make_history(redis, prefix, clock)
    assert shortages.status() == {"offerings": 0, "worst": []}
    for offerings in ([SPOT, OTHER], [SPOT], [SPOT]):
        await shortages.add(offerings)
    assert [offering for offering, _ in await shortages.current()] == [OTHER, SPOT]
    worst = {"offering": "spot:m5.large:us-west-2a", "dearerPercent": 0.8}
    assert shortages.status() == {
        "offerings": 2,
        "worst": [worst, {"offering": "on-demand:c5.large:us-west-2b", "dearerPercent": 0.5}],
    }


@pytest.mark.slow
async def test_without_redis_there_is_no_history_and_no_error(clock: FakeClock) -> None:
    async with Redis(host="127.0.0.1", port=9) as away:
        shortages = make_history(away, "nowhere:", clock)
        await shortages.add([SPOT])
        assert await shortages.current() == ()


async def test_what_is_over_is_read_once_a_minute(
    redis: Redis, prefix: str, clock: FakeClock
) -> None:
    """What is counted now is read each time. A history that came back is read by the next minute."""
    shortages = make_history(redis, prefix, clock)
    (day, *_) = shortages.numbers()
    assert await shortages.scores() == {}
    await make_history(redis, prefix, clock).restore({day: {":".join(OTHER): 128}})
    await make_history(redis, prefix, clock).add([SPOT])
    assert await shortages.scores() == {SPOT: 1.0}
    clock.advance(KEPT_SECONDS)
    assert await shortages.scores() == {SPOT: 1.0, OTHER: 1.0}
