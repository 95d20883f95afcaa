"""A dynamic pool gets the machines of its minimum, and they go when it closes."""

from __future__ import annotations

import orjson
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from cli.decisions.explain_pool import lines
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.generations import V1
from shared.domain.pools.kept_capacity import keeps_capacity
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.windows import KeptCapacity, Window
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import NODE_CLAIMS
from tests.services.conftest import written_events
from tests.services.scheduler.conftest import Scheduler
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_node_class, make_pool

KEPT = make_pool(generation_api=V1, minimum=(KeptCapacity(amounts={"nodes": 2, "cpu": 1000}),))

NO_SUCH_TYPE = Expression(keys.INSTANCE_TYPE, "In", ("no.such",))


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


@pytest.mark.parametrize(
    ("more_settings", "pool", "event"),
    [
        (
            {"FEATURE_GATES": "StaticCapacity=true"},
            make_pool(generation_api=V1, replicas=2, requirements=(NO_SUCH_TYPE,)),
            "ReplicasMissing",
        ),
        ({}, replace(KEPT, requirements=(NO_SUCH_TYPE,)), "KeptCapacityMissing"),
    ],
    ids=["replicas", "minimum"],
)
async def test_a_pool_that_no_machine_suits_says_so(
    scheduler: Scheduler, kube: Kube, recorder: Recorder, pool: NodePool, event: str
) -> None:
    """By an event, and to whom asks about the pool."""
    await scheduler.show(nodepools=[pool], nodeclasses=[make_node_class(generation_api=V1)])
    await scheduler.disruption.step()
    await scheduler.disruption.step()
    assert (await kube.list(NODE_CLAIMS)).items == []
    (found,) = [one for one in await written_events(kube, recorder) if one["reason"] == event]
    assert found["message"].startswith("Pool is short of ")
    answer = await scheduler.parts.explainer.answer(b"", {"pool": "default"})
    problems = orjson.loads(answer.body)["problems"]
    assert any(one.startswith("it is short of ") for one in problems), problems


@pytest.mark.parametrize("more_settings", [{"FEATURE_GATES": "StaticCapacity=true"}])
async def test_why_a_static_pool_waits_is_logged_once(scheduler: Scheduler) -> None:
    """Passes come every second, and a class may be on its way out for hours."""
    pool = make_pool(generation_api=V1, replicas=2, requirements=(NO_SUCH_TYPE,))
    await scheduler.show(nodepools=[pool], nodeclasses=[make_node_class(generation_api=V1)])
    with capture_logs() as lines:
        for _ in range(3):
            await scheduler.disruption.step()
    (line,) = [one for one in lines if one["event"] == "static pool waits"]
    assert (line["pool"], "instance type" in line["why"]) == (pool.name, True)


async def test_explain_pool_shows_what_it_keeps(scheduler: Scheduler) -> None:
    pool = replace(KEPT, headroom=(KeptCapacity(amounts={"cpu": 500}, percent=20),))
    await scheduler.show(nodepools=[pool], nodeclasses=[make_node_class(generation_api=V1)])
    answer = await scheduler.parts.explainer.answer(b"", {"pool": "default"})
    shown = [str(line) for line in lines(orjson.loads(answer.body))]
    assert "minimum    cpu: 0 of 1" in shown
    assert "minimum    nodes: 0 of 2" in shown
    assert "headroom   cpu: 0 of 500m free" in shown


async def test_explain_pool_says_that_a_minimum_holds_at_other_times(scheduler: Scheduler) -> None:
    rarely = KeptCapacity(amounts={"nodes": 2}, schedule="0 0 29 2 *", duration_seconds=60.0)
    pool = make_pool(generation_api=V1, minimum=(rarely,))
    await scheduler.show(nodepools=[pool], nodeclasses=[make_node_class(generation_api=V1)])
    answer = await scheduler.parts.explainer.answer(b"", {"pool": "default"})
    shown = [str(line) for line in lines(orjson.loads(answer.body))]
    assert "minimum    none now; from 0 0 29 2 * (UTC)" in shown


async def test_explain_pool_says_that_it_is_closed(scheduler: Scheduler) -> None:
    window = Window(schedule="0 0 29 2 *", duration_seconds=60.0)
    pool = make_pool(generation_api=V1, hours=(window,))
    await scheduler.show(nodepools=[pool], nodeclasses=[make_node_class(generation_api=V1)])
    answer = await scheduler.parts.explainer.answer(b"", {"pool": "default"})
    assert any("outside its hours" in one for one in orjson.loads(answer.body)["problems"])


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
