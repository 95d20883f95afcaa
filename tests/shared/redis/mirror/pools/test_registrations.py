"""The last registrations of a pool (NP-15, LCH-77)."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from shared.redis.mirror.pools.registrations import OUTCOMES_PER_POOL, RegistrationOutcomes

POOL, OTHER = "NodePool/a", "NodePool/b"


@pytest.fixture
def outcomes(redis: Redis, prefix: str) -> RegistrationOutcomes:
    return RegistrationOutcomes(redis, prefix)


async def test_the_last_four_outcomes_of_a_pool_are_kept_newest_first(
    outcomes: RegistrationOutcomes, redis: Redis, prefix: str
) -> None:
    """NP-15: also over a restart of whoever wrote them."""
    for number, good in enumerate((True, True, False, True, False)):
        await outcomes.record(POOL, f"m-{number}", good=good)
    await outcomes.record(OTHER, "m-9", good=True)
    again = RegistrationOutcomes(redis, prefix)
    found = await again.recent([POOL, OTHER, "NodePool/c"])
    assert found == {POOL: (False, True, False, True), OTHER: (True,)}
    assert len(found[POOL]) == OUTCOMES_PER_POOL
    await again.forget(POOL)
    assert await outcomes.recent([POOL, OTHER]) == {OTHER: (True,)}
    assert await outcomes.recent([]) == {}


async def test_an_outcome_that_is_told_twice_counts_once(outcomes: RegistrationOutcomes) -> None:
    """A crash between the note and the next step repeats both."""
    for _ in range(3):
        await outcomes.record(POOL, "m-1", good=False)
    assert await outcomes.recent([POOL]) == {POOL: (False,)}
