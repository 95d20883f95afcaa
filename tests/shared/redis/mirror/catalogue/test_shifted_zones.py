"""Zones that the cluster is shifted away from (GAT-03)."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from shared.redis.mirror.catalogue.shifted_zones import SHIFTED_ZONES_CACHE_SECONDS, ShiftedZones
from tests.support.clock.fake import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def zones(redis: Redis, prefix: str, clock: FakeClock) -> ShiftedZones:
    return ShiftedZones(redis, prefix, clock)


async def test_what_the_launcher_says_holds_everywhere(
    zones: ShiftedZones, redis: Redis, prefix: str, clock: FakeClock
) -> None:
    """Five seconds later at most; nothing before anybody said something."""
    reader = ShiftedZones(redis, prefix, clock)
    assert await reader.current() == frozenset()
    await zones.put({"us-west-2a"})
    clock.advance(SHIFTED_ZONES_CACHE_SECONDS)
    assert await reader.current() == {"us-west-2a"}
    await zones.put(())
    clock.advance(SHIFTED_ZONES_CACHE_SECONDS)
    assert await reader.current() == frozenset()


async def test_what_is_stored_ends_by_itself(
    zones: ShiftedZones, redis: Redis, prefix: str
) -> None:
    """A launcher that is away keeps no zone shifted."""
    await zones.put({"us-west-2a"})
    assert 0 < await redis.ttl(f"{prefix}shifted-zones") <= 90


@pytest.mark.parametrize("trouble", ["away", "written by another version"])
async def test_without_an_answer_the_last_one_holds(
    redis: Redis, prefix: str, clock: FakeClock, trouble: str
) -> None:
    """A zone that fails may take Redis along."""
    zones = ShiftedZones(redis, prefix, clock)
    await zones.put({"us-west-2a"})
    await zones.current()
    if trouble == "away":
        await redis.aclose()
        redis.connection_pool.connection_kwargs["port"] = 9
    else:
        await redis.set(f"{prefix}shifted-zones", b"zones")
    clock.advance(SHIFTED_ZONES_CACHE_SECONDS)
    assert await zones.current() == {"us-west-2a"}
