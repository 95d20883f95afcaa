"""Machines whose time is up go at once, by a clock that a second one confirms (DIS-60, F13)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.domain.pools.nodepools import Budget
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from tests.services.scheduler.conftest import AnotherTime, Scheduler
from tests.services.scheduler.disruption.test_commands import (
    LARGE,
    POOL,
    is_deleted,
    oversized,
    shown,
    tainted,
)

__all__ = ["oversized"]


async def test_v1_machines_expire_without_a_command(
    oversized: Scheduler, kube: Kube, events: Any
) -> None:
    """DIS-04, DIS-60: by the claim's age; no replacement first, no budget holds it. Claim and node say why they go."""
    await oversized.show(nodepools=[replace(POOL, budgets=(Budget("0"),))])
    claims = await shown(oversized, kube)
    old = replace(claims[LARGE.machine.name], expire_seconds=60.0, created_at=1.0)
    await oversized.show(machines=[old])
    await oversized.disruption.step()
    assert await is_deleted(kube)
    assert len((await kube.list(NODE_CLAIMS)).items) == 1
    said = set(await events())
    assert {("DisruptionTerminating", old.name), ("DisruptionTerminating", old.node_name)} <= said


@pytest.mark.parametrize("hours", [1, -1])
async def test_nothing_is_disrupted_by_a_clock_that_redis_contradicts(
    oversized: Scheduler, kube: Kube, hours: int
) -> None:
    """F13: an hour ahead, machines of a short ``expireAfter`` would go when they are ordered (mixed 60120)."""
    clock = AnotherTime(oversized.cluster.clock, hours * 3600.0)
    oversized.cluster.clock = oversized.disruption.clock = clock
    claims = await shown(oversized, kube)
    old = replace(claims[LARGE.machine.name], expire_seconds=60.0, created_at=1.0)
    await oversized.show(machines=[old])
    for _ in range(3):
        await oversized.disruption.step()
    assert not await is_deleted(kube)
    assert not await tainted(kube)
    way = "ahead of" if hours > 0 else "behind"
    why = f"the clock is 3600 s {way} that of Redis: set both"
    assert oversized.disruption.status()["clock"] == why
    assert oversized.cluster.complaints(0.0) == [why]
    clock.seconds = 0.0
    await oversized.disruption.step()
    assert await is_deleted(kube)
    assert oversized.disruption.status()["clock"] == ""
