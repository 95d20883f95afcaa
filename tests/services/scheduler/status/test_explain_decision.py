"""What a plan would have cost by each policy: ``POST /explain`` with the id of a decision."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from services.scheduler.state.decisions import DecisionLog
from services.scheduler.state.plan_inputs import MOST_KEPT, PlanInputs, RecentInputs
from shared.domain.machines.commands import CommandRecord
from shared.kube.client import Kube
from shared.solver.solve import SolverSettings
from tests.services.scheduler.conftest import Scheduler, pool_of
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_pod, make_snapshot


async def explain(scheduler: Scheduler, decision: str) -> tuple[int, Any]:
    body = orjson.dumps({"decision": decision})
    found = await scheduler.parts.explainer.answer(body, {})
    return found.status, orjson.loads(found.body)


@pytest.mark.slow
async def test_a_plan_has_a_price_by_each_policy(scheduler: Scheduler, kube: Kube) -> None:
    pods = [make_pod(f"web-{i}", cpu="1", unschedulable=True) for i in range(5)]
    await scheduler.show(nodepools=[await pool_of(kube)], pods=pods)
    await scheduler.plan()
    (decision,) = scheduler.planner.reporter.decisions.documents()
    status, found = await explain(scheduler, decision["id"])
    assert status == 200
    policies = found["policies"]
    assert policies["FewestNodes"]["cost"] == decision["cost"]
    assert policies["LowestCost"]["cost"] <= policies["FewestNodes"]["cost"]
    assert {one["unplaced"] for one in policies.values()} == {0}


async def test_an_unknown_decision_is_named(scheduler: Scheduler) -> None:
    status, found = await explain(scheduler, "plan-of-yesterday")
    assert status == 404
    assert "plan-of-yesterday" in found["error"]


def test_only_the_latest_inputs_are_kept() -> None:
    recent = RecentInputs()
    inputs = PlanInputs(make_snapshot(), frozenset(), SolverSettings(), 0.0)
    for number in range(MOST_KEPT + 1):
        recent.keep(str(number), inputs)
    assert recent.of("0") is None
    assert recent.of("1") == recent.of(str(MOST_KEPT)) == inputs


def test_a_command_that_was_taken_back_is_listed_as_such() -> None:
    log = DecisionLog(FakeClock())
    record = CommandRecord("c-1", "drift", "Drifted", ("Machine/a",), (), 0.0, text="replace a")
    log.rolled_back(record, "no capacity")
    (found,) = log.documents()
    assert found["text"] == "rolled back: replace a"
    assert found["cost"] is None
    assert found["rejected"] == [{"what": "replace a", "why": "no capacity"}]
