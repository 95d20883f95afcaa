"""What the cluster's pods would cost on new machines: ``POST /explain`` with cost; and the latest decisions."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from services.scheduler.state.decisions import MOST_DECISIONS, DecisionLog
from shared.kube.client import Kube
from tests.services.scheduler.conftest import Scheduler, pool_of
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_pod, make_snapshot
from tests.support.planning.snapshots import plan_for


async def ask(scheduler: Scheduler) -> tuple[int, Any]:
    found = await scheduler.parts.explainer.answer(b'{"cost": "all"}', {})
    return found.status, orjson.loads(found.body)


@pytest.mark.slow
async def test_the_bound_and_both_policies_are_told(scheduler: Scheduler, kube: Kube) -> None:
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod(unschedulable=True)])
    status, found = await ask(scheduler)
    assert status == 200
    assert found["pods"] == 1
    assert 0 < found["bound"] <= min(found["costs"].values())
    assert set(found["costs"]) == {"FewestNodes", "LowestCost", "Balanced"}


@pytest.mark.nightly
async def test_one_question_at_a_time(scheduler: Scheduler, kube: Kube) -> None:
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod(unschedulable=True)])
    statuses = [status for status, _ in await asyncio.gather(ask(scheduler), ask(scheduler))]
    assert sorted(statuses) == [200, 429]


async def test_a_plan_is_listed_with_what_it_bought_and_why_pods_stay(
    scheduler: Scheduler, kube: Kube
) -> None:
    await scheduler.show(
        nodepools=[await pool_of(kube)],
        pods=[
            make_pod("web", unschedulable=True),
            make_pod("huge", cpu="5000", unschedulable=True),
        ],
    )
    await scheduler.plan()
    (decision,) = scheduler.planner.reporter.decisions.documents()
    assert decision["text"] == "1 machine for 1 pod; 1 pod can be placed nowhere"
    assert decision["cost"] >= decision["bound"] > 0
    assert [one["what"] for one in decision["rejected"]] == ["pod default/huge"]
    assert list(decision["moves"]) == ["default/web"]


def test_a_plan_that_finds_the_same_again_is_listed_once_and_few_are_kept() -> None:
    clock = FakeClock()
    kept = DecisionLog(clock)
    snapshot = make_snapshot(make_pod("huge", cpu="5000", unschedulable=True))
    for _ in range(3):
        kept.plan(plan_for(snapshot), [], snapshot)
    assert len(kept.documents()) == 1
    served = make_snapshot(make_pod("web", unschedulable=True))
    plan = plan_for(served)
    for _ in range(MOST_DECISIONS + 5):
        kept.plan(plan, plan.machines, served)
    assert len(kept.documents()) == MOST_DECISIONS
