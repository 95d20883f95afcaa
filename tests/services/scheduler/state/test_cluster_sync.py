"""Nothing is decided while a watch of the mirror may miss changes (OPS-13)."""

from __future__ import annotations

import pytest

from shared.kube.client import Kube
from shared.redis.mirror import Position
from tests.services.scheduler.conftest import SOUND, Scheduler, hear, machines, machines_at, pool_of
from tests.support.planning.builders import make_pod


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position("1", sound=False, seconds=7.0), "the watch of machines has been broken for 7 s"),
        (Position("1", sound=True, seconds=500.0), "the watch of machines has been silent"),
    ],
    ids=["broken", "silent"],
)
async def test_nothing_is_bought_while_a_watch_is_not_sound(
    scheduler: Scheduler, kube: Kube, position: Position, text: str
) -> None:
    """The text names the kind and the seconds; readiness says the same."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await hear(scheduler, {**SOUND, "machines": position})
    await scheduler.plan_refused()
    assert scheduler.planner.problem.startswith(text)
    assert scheduler.cluster.not_synced(patience=5.0).startswith(text)
    assert await machines(kube) == []
    await hear(scheduler, machines_at("2"))
    await scheduler.plan("b")
    assert len(await machines(kube)) == 1
