"""The rate of disruptions in an hour holds also while Redis does not answer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.kube.client import Kube
from shared.redis.bus import Bus
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.disruption.test_commands import (
    POOL,
    begun,
    initialise,
    is_deleted,
    oversized,
    shown,
    tainted,
)

__all__ = ["oversized"]


async def test_a_rate_is_kept_across_commands(oversized: Scheduler, kube: Kube) -> None:
    """The hour's allowance is used up by somebody else's deletion."""
    await oversized.commands.rate.counter.spend(POOL.key, ["another"])
    await oversized.show(nodepools=[replace(POOL, most_disruptions_per_hour=1)])
    for _ in range(3):
        await oversized.disruption.step()
    assert not await tainted(kube)


async def test_without_the_count_of_the_last_hour_a_pool_with_a_rate_is_left_alone(
    oversized: Scheduler, kube: Kube, bus: Bus
) -> None:
    await bus.redis.set(f"{bus.prefix}disrupted", "unreadable")
    await oversized.show(nodepools=[replace(POOL, most_disruptions_per_hour=9)])
    for _ in range(3):
        await oversized.disruption.step()
    assert not await tainted(kube)


@pytest.mark.parametrize(("rate", "goes"), [(9, False), (None, True)])
async def test_a_machine_whose_deletion_cannot_be_counted_stays_if_its_pool_has_a_rate(
    oversized: Scheduler, kube: Kube, bus: Bus, rate: int | None, goes: bool
) -> None:
    await oversized.show(nodepools=[replace(POOL, most_disruptions_per_hour=rate)])
    replacement = await begun(oversized, kube)
    await initialise(kube, replacement.name)
    await shown(oversized, kube)
    await bus.redis.set(f"{bus.prefix}disrupted", "unreadable")
    await oversized.disruption.step()
    assert await is_deleted(kube) is goes
