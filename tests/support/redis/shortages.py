"""Builders of the shortage history and of what it holds, for tests on a real Redis."""

from __future__ import annotations

from redis.asyncio import Redis

from shared.domain import labels as keys
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.settings.shortages import ShortageSettings
from tests.support.clock.fake import FakeClock

DAY = 86_400.0
SPOT = (keys.SPOT, "m5.large", "us-west-2a")
OTHER = (keys.ON_DEMAND, "c5.large", "us-west-2b")


def at_the_start_of_a_day() -> FakeClock:
    """A half-life of a day has just begun."""
    return FakeClock(wall=20_000 * DAY)


def make_history(
    redis: Redis, prefix: str, clock: FakeClock, *, half_life: float = DAY, store: str = ""
) -> ShortageHistory:
    """``store``: where clusters share it; empty: this one does not."""
    settings = ShortageSettings(
        shortage_half_life=half_life, shortage_margin=0.01, shortage_store=store
    )
    return ShortageHistory(redis, prefix, clock, settings)
