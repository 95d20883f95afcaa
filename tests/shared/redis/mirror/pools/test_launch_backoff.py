"""A pool whose machines never register launches fewer and fewer (F25)."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from shared.domain import labels as keys
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff, template_of
from tests.support.planning.builders import make_machine
from tests.support.redis.elapsing import elapse

POOL = "NodePool/default"


@pytest.fixture
def backoff(redis: Redis, prefix: str) -> LaunchBackoff:
    return LaunchBackoff(redis, prefix)


async def fail(backoff: LaunchBackoff, times: int = 3) -> None:
    for _ in range(times):
        await backoff.failed(POOL)


async def test_two_failures_are_no_reason_to_wait(backoff: LaunchBackoff) -> None:
    """F25: three in a row."""
    await fail(backoff, 2)
    assert await backoff.admit(POOL, "uid") == 0.0
    assert await backoff.failed(POOL) is True
    assert await backoff.admit(POOL, "uid") > 0.0
    assert await backoff.admit("NodePool/other", "uid") == 0.0


async def test_one_success_wipes_the_slate(backoff: LaunchBackoff) -> None:
    await fail(backoff, 2)
    await backoff.succeeded(POOL)
    await fail(backoff, 2)
    assert await backoff.admit(POOL, "uid") == 0.0


async def test_a_wait_that_a_wrong_clock_wrote_ends(
    backoff: LaunchBackoff, redis: Redis, prefix: str
) -> None:
    """F25: no wait is longer than half an hour, also when Redis moved to a server with another time."""
    await fail(backoff)
    await elapse(redis, prefix, -3600)
    assert await backoff.admit(POOL, "a") == 0.0
    assert await backoff.admit(POOL, "b") == pytest.approx(120, abs=5)


async def test_one_launch_per_one_two_four_up_to_thirty_minutes(
    backoff: LaunchBackoff, redis: Redis, prefix: str
) -> None:
    """F25: the gaps between launches of a pool with any number of waiting machines."""
    await fail(backoff)
    times = []
    for second in range(0, 3 * 3600, 30):
        admitted = await backoff.admit(POOL, f"uid-{second}")
        if admitted == 0.0:
            times.append(second / 60)
        await elapse(redis, prefix, 30)
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert gaps[:6] == [1, 2, 4, 8, 16, 30]
    assert set(gaps[6:]) == {30}
    assert sum(time < 105 for time in times) + 3 <= 15, "a bad image for two hours"


async def test_a_wave_of_failures_counts_once(backoff: LaunchBackoff) -> None:
    """F25: ten machines that fail together are one mistake."""
    await fail(backoff, 10)
    assert await backoff.admit(POOL, "uid") == pytest.approx(60, abs=5)


async def test_the_machine_that_holds_the_slot_may_try_again(
    backoff: LaunchBackoff, redis: Redis, prefix: str
) -> None:
    """A throttled call, a crash: its launch may take several tries."""
    await fail(backoff)
    await elapse(redis, prefix, 61)
    assert await backoff.admit(POOL, "a") == 0.0
    assert await backoff.admit(POOL, "a") == 0.0
    assert await backoff.admit(POOL, "b") == pytest.approx(120, abs=5)


async def test_a_changed_pool_is_a_new_try(backoff: LaunchBackoff) -> None:
    """F25: recovers at once after the fix."""
    for _ in range(3):
        await backoff.failed(POOL, "broken")
    assert await backoff.admit(POOL, "a", "broken") > 0
    assert await backoff.admit(POOL, "a", "mended") == 0.0


async def test_what_nobody_can_read_is_forgotten(
    backoff: LaunchBackoff, redis: Redis, prefix: str
) -> None:
    """An older or newer build wrote it: the pool gets another three tries."""
    await redis.set(f"{prefix}launch-backoff:{POOL}", b'{"failures": "many"}')
    assert await backoff.admit(POOL, "a") == 0.0
    await fail(backoff)
    assert await backoff.admit(POOL, "a") > 0
    assert await redis.ttl(f"{prefix}launch-backoff:{POOL}") > 0


def test_a_template_is_known_by_the_hashes_of_pool_and_class() -> None:
    """Both generations write them to their machines (NP-20)."""
    v1 = make_machine("m", annotations={keys.POOL_HASH: "1", keys.CLASS_HASH: "2"})
    old = make_machine("m", annotations={keys.PROVISIONER_HASH: "1", keys.NODE_TEMPLATE_HASH: "2"})
    edited = make_machine("m", annotations={keys.POOL_HASH: "1", keys.CLASS_HASH: "3"})
    assert template_of(make_machine("m")) == ""
    assert template_of(v1)
    assert template_of(old)
    assert template_of(edited) != template_of(v1)


async def test_a_failure_told_twice_counts_once(backoff: LaunchBackoff) -> None:
    """LCH-67: the launcher and the terminator may both see how an instance ended."""
    for uid in ("a", "a", "b", "b", "a"):
        assert await backoff.failed(POOL, "", uid) is False
    assert await backoff.admit(POOL, "uid") == 0.0
    assert await backoff.failed(POOL, "", "c") is True
