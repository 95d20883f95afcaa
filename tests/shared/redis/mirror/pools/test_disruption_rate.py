"""How many machines of a pool were disrupted in the last hour."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from shared.redis.mirror.pools.disruption_rate import DISRUPTION_WINDOW_SECONDS, DisruptionRate
from tests.support.redis.elapsing import elapse

POOL, OTHER = "NodePool/a|b", "NodePool/c"


@pytest.fixture
def rate(redis: Redis, prefix: str) -> DisruptionRate:
    return DisruptionRate(redis, prefix)


async def test_machines_count_for_an_hour_of_redis(
    rate: DisruptionRate, redis: Redis, prefix: str
) -> None:
    """A new leader whose clock is an hour wrong counts the same."""
    await rate.spend(POOL, ["1", "2"])
    await elapse(redis, prefix, DISRUPTION_WINDOW_SECONDS - 10)
    await rate.spend(OTHER, ["3"])
    assert await rate.spent() == {POOL: 2, OTHER: 1}
    await elapse(redis, prefix, 10)
    assert await rate.spent() == {OTHER: 1}


async def test_a_machine_counts_once_from_its_first_disruption(
    rate: DisruptionRate, redis: Redis, prefix: str
) -> None:
    await rate.spend(POOL, ["1"])
    await elapse(redis, prefix, DISRUPTION_WINDOW_SECONDS - 10)
    await rate.spend(POOL, ["1"])
    assert await rate.spent() == {POOL: 1}
    await elapse(redis, prefix, 10)
    assert await rate.spent() == {}


async def test_no_machine_costs_nothing(rate: DisruptionRate) -> None:
    await rate.spend(POOL, [])
    assert await rate.spent() == {}
