"""The smallest change that would place a waiting pod, as an event: for whom, how often, and when there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.scheduler.provisioning.pod_hints import PodHints
from shared.domain.expressions import Taint
from shared.domain.pools.generations import V1
from shared.runtime.child import Bounds
from tests.services.conftest import written_events
from tests.services.scheduler.conftest import Scheduler
from tests.support.planning.builders import make_node_class, make_pod, make_pool

TAINT = Taint("example.com/gpu", "NoSchedule", "yes")
HINT = "This would place it: Pod default/web: tolerate the taint example.com/gpu=yes:NoSchedule"


async def waiting(scheduler: Scheduler, *pods: Any) -> PodHints:
    """The hints of a scheduler whose last plan had no place for the pods: the only pool is tainted."""
    await scheduler.show(
        nodepools=[make_pool(generation_api=V1, taints=(TAINT,))],
        nodeclasses=[make_node_class(generation_api=V1)],
        pods=pods,
    )
    await scheduler.plan()
    return scheduler.parts.pod_hints


async def told(scheduler: Scheduler) -> list[tuple[str, str]]:
    """Pod and text of the hints on the API server."""
    return [
        (one["involvedObject"]["name"], one["message"])
        for one in await written_events(scheduler.kube, scheduler.parts.pod_hints.recorder)
        if one["reason"] == "SmallestChange"
    ]


@pytest.mark.slow
async def test_a_waiting_pod_is_told_what_would_place_it(scheduler: Scheduler) -> None:
    hints = await waiting(scheduler, make_pod("web"))
    await hints.step()
    assert await told(scheduler) == [("web", HINT)]


@pytest.mark.slow
async def test_each_pod_gets_its_turn_and_none_a_second_one(scheduler: Scheduler) -> None:
    hints = await waiting(
        scheduler, make_pod("old", created_at=1.0), make_pod("new", created_at=2.0)
    )
    await hints.step()
    assert [name for name, _ in await told(scheduler)] == ["old"]
    for _ in range(3):
        await hints.step()
    assert sorted(name for name, _ in await told(scheduler)) == ["new", "old"]


@pytest.mark.slow
async def test_a_pod_that_no_known_change_places_gets_no_event(scheduler: Scheduler) -> None:
    """A fault of its own spec is in its other event."""
    hints = await waiting(scheduler, make_pod("web", faults=("spec.affinity: cannot be read",)))
    await hints.step()
    assert await told(scheduler) == []


async def test_while_pods_wait_for_a_plan_no_search_is_started(scheduler: Scheduler) -> None:
    hints = replace(await waiting(scheduler, make_pod("web")), is_batching=lambda: True)
    await hints.step()
    assert await told(scheduler) == []


@pytest.mark.slow
async def test_a_search_without_end_costs_only_its_turn(scheduler: Scheduler) -> None:
    hints = await waiting(
        scheduler, make_pod("old", created_at=1.0), make_pod("new", created_at=2.0)
    )
    whole, hints.bounds = hints.bounds, Bounds("the hint for a pod", seconds=0.0)
    await hints.step()
    hints.bounds = whole
    await hints.step()
    assert [name for name, _ in await told(scheduler)] == ["new"]
