"""Offerings that EC2 refused, as all services know them (LCH-61)."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from shared.redis.bus.connection import server_time
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from tests.support.redis.elapsing import elapse

FIRST, SECOND = ("spot", "m5.large", "us-west-2a"), ("spot", "m5.large", "us-west-2b")


@pytest.fixture
def offerings(redis: Redis, prefix: str) -> UnavailableOfferings:
    return UnavailableOfferings(redis, prefix)


async def test_an_offering_is_unavailable_for_so_long(
    offerings: UnavailableOfferings, redis: Redis, prefix: str
) -> None:
    await offerings.add([FIRST], seconds=180)
    await offerings.add([SECOND], seconds=300)
    await elapse(redis, prefix, 170)
    assert await offerings.current() == {FIRST, SECOND}
    await elapse(redis, prefix, 10)
    assert await offerings.current() == {SECOND}


async def test_the_end_is_a_time_of_redis(
    offerings: UnavailableOfferings, redis: Redis, prefix: str
) -> None:
    """A service whose clock is an hour wrong keeps an offering neither for an hour nor for no time at all."""
    before = await server_time(redis)
    await offerings.add([FIRST], seconds=180)
    end = float(await redis.zscore(f"{prefix}unavailable", ":".join(FIRST)) or 0)
    assert before + 180 <= end <= await server_time(redis) + 180


async def test_what_has_expired_is_dropped_with_the_next_refusal(
    offerings: UnavailableOfferings, redis: Redis, prefix: str
) -> None:
    await offerings.add([FIRST], seconds=180)
    await elapse(redis, prefix, 180)
    await offerings.add([SECOND], seconds=180)
    assert await redis.zcard(f"{prefix}unavailable") == 1


async def test_no_offering_costs_no_command(offerings: UnavailableOfferings) -> None:
    await offerings.add([], seconds=180)
    assert await offerings.current() == frozenset()
