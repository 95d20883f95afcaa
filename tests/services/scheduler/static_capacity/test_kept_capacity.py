"""A dynamic pool gets the machines of its minimum, and they go when it closes."""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain.pools.generations import V1
from shared.domain.pools.kept_capacity import keeps_capacity
from shared.domain.pools.windows import KeptCapacity, Window
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from tests.services.scheduler.conftest import Scheduler
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_node_class, make_pool

KEPT = make_pool(generation_api=V1, minimum=(KeptCapacity(amounts={"nodes": 2, "cpu": 1000}),))


def missing_nodes(scheduler: Scheduler) -> float | None:
    page = Scraped(scheduler.disruption.kept_capacity.metrics.text())
    return page.value("dovetail_nodepools_kept_missing", nodepool="default", resource_type="nodes")


async def test_the_minimum_is_bought_once_and_with_it_nothing_is_missing(
    scheduler: Scheduler, kube: Kube
) -> None:
    """A second step, before the mirror shows the machines, buys no more."""
    await scheduler.show(nodepools=[KEPT], nodeclasses=[make_node_class(generation_api=V1)])
    await scheduler.disruption.step()
    assert missing_nodes(scheduler) == 2
    await scheduler.disruption.step()
    assert len((await kube.list(NODE_CLAIMS)).items) == 2
    assert missing_nodes(scheduler) == 0
    kinds = [one["kind"] for one in scheduler.disruption.reporter.decisions.documents()]
    assert kinds == ["kept capacity"]


async def test_when_it_closes_its_machines_go(scheduler: Scheduler, kube: Kube) -> None:
    await scheduler.show(nodepools=[KEPT], nodeclasses=[make_node_class(generation_api=V1)])
    await scheduler.disruption.step()
    closing = replace(
        KEPT,
        hours=(Window(schedule="0 0 29 2 *", duration_seconds=60.0),),
        drains_when_closed=True,
    )
    await scheduler.show(nodepools=[closing])
    await scheduler.disruption.step()
    claims = (await kube.list(NODE_CLAIMS)).items
    assert all("deletionTimestamp" in claim["metadata"] for claim in claims)
    assert len(claims) == 2
    assert keeps_capacity(closing)
