"""What a pool has, may buy and may disrupt; which decision bought a machine, and what else could have been bought."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cli.decisions.explain_pool import lines
from cli.decisions.purchase_text import bought_text
from shared.disruption.advice import NO_BUDGET, SWITCHED_OFF
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import Budget
from tests.services.scheduler.conftest import Scheduler
from tests.support.planning.builders import amounts, make_node_class, make_pool
from tests.support.planning.disruption import make_running, pods_on


async def ask(scheduler: Scheduler, **question: str) -> tuple[int, Any]:
    found = await scheduler.parts.explainer.answer(b"", question)
    return found.status, orjson.loads(found.body)


async def shown(scheduler: Scheduler, plan: str = "plan-1", **changes: Any) -> None:
    """One machine of 16 cores for 10 cores of pods, bought by a plan that the scheduler does not remember."""
    pool = make_pool(generation_api=V1, budgets=(Budget("1"),), **changes)
    running = make_running(
        "n1", "m5.x016", pool=pool, requests=amounts(cpu="10", memory="1Gi"),
        annotations={keys.PLAN_ANNOTATION: plan, keys.PRICE_ANNOTATION: "768000"},
    )  # fmt: skip
    await scheduler.show(
        nodepools=[pool],
        nodeclasses=[make_node_class(generation_api=V1)],
        machines=[running.machine],
        nodes=[running.node],
        pods=pods_on("n1", 2),
    )


async def test_a_pool_is_told_with_machines_cost_limits_budgets_and_offerings(
    scheduler: Scheduler,
) -> None:
    await shown(scheduler, limits=amounts(cpu="32"), usage=amounts(cpu="16"))
    status, found = await ask(scheduler, pool="default")
    assert status == 200
    assert found["pool"] == "NodePool/default"
    assert found["machines"] == {"all": 1, "ready": 1, "terminating": 0, "drifted": 0}
    assert found["pods"] == 2
    assert found["costPerHour"] == pytest.approx(16 * 0.048)
    assert found["limits"] == {"cpu": {"limit": "32", "used": "16"}}
    assert found["budgets"]["Drifted"] == {"most": 1, "of": 1}
    assert found["offerings"]["cheapest"][0]["instanceType"] == "m5.x002"
    assert found["problems"] == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"limits": amounts(cpu="16"), "usage": amounts(cpu="16")}, "at its limit for cpu"),
        ({"limits": amounts(cpu="8"), "usage": amounts(cpu="16")}, "above its limit for cpu"),
        ({"replicas": 3}, "FEATURE_GATES=StaticCapacity=true"),
        ({"expire_seconds": 0.0}, "bought and deleted without end"),
        ({"disruption_off": True}, "voluntary disruption is switched off"),
        ({"node_class": "missing"}, "EC2NodeClass/missing does not exist"),
    ],
)
async def test_what_keeps_a_pool_from_its_work_is_named(
    scheduler: Scheduler, changes: dict[str, Any], problem: str
) -> None:
    await shown(scheduler, **changes)
    _, found = await ask(scheduler, pool="NodePool/default")
    assert any(problem in one for one in found["problems"]), found["problems"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"fault": "no subnet"}, "its node class is not ready: no subnet"),
        (
            {"terminating": True, "fault": "not processed yet"},
            "EC2NodeClass/default is being deleted",
        ),
    ],
)
async def test_what_keeps_a_class_from_its_work_is_named(
    scheduler: Scheduler, changes: dict[str, Any], problem: str
) -> None:
    node_class = make_node_class(generation_api=V1, ready=False, **changes)
    await scheduler.show(nodepools=[make_pool(generation_api=V1)], nodeclasses=[node_class])
    _, found = await ask(scheduler, pool="default")
    assert len(found["problems"]) == 1
    assert problem in found["problems"][0]


@pytest.mark.parametrize("more_settings", [{"DISRUPTION": "off"}])
async def test_the_switch_for_all_pools_holds_pool_and_node_whatever_budgets_say(
    scheduler: Scheduler,
) -> None:
    await shown(scheduler)
    await scheduler.disruption.step()
    _, pool = await ask(scheduler, pool="default")
    assert pool["problems"] == [SWITCHED_OFF]
    _, node = await ask(scheduler, node="n1")
    texts = [one["text"] for one in node["staysBecause"]]
    assert texts[0] == SWITCHED_OFF
    assert not any(text.startswith(NO_BUDGET) for text in texts)


@pytest.mark.parametrize("more_settings", [{"FEATURE_GATES": "StaticCapacity=true"}])
async def test_a_static_pool_says_how_many_machines_it_is_to_have(scheduler: Scheduler) -> None:
    await shown(scheduler, replicas=3)
    _, found = await ask(scheduler, pool="default")
    assert found["replicas"] == 3
    assert "machines   1 of 3 replicas: 1 ready, 0 drifted, 0 terminating" in map(str, lines(found))


async def test_an_unknown_pool_is_answered_with_those_that_there_are(scheduler: Scheduler) -> None:
    await shown(scheduler)
    status, found = await ask(scheduler, pool="other")
    assert status == 404
    assert "NodePool/default" in found["error"]


async def test_a_node_says_what_bought_it_and_what_else_would_have_done(
    scheduler: Scheduler,
) -> None:
    await shown(scheduler)
    _, found = await ask(scheduler, node="n1")
    assert found["bought"]["decision"] == "plan-1"
    assert found["bought"]["pricePerHour"] == pytest.approx(0.768)
    assert found["alternatives"]["taken"]["instanceType"] == "m5.x016"
    lacks = {one["instanceType"]: one["why"] for one in found["alternatives"]["others"]}
    assert lacks["m5.x008"] == "too small: cpu 8 of 10"


async def test_a_machine_that_its_pool_is_to_have_names_no_decision(scheduler: Scheduler) -> None:
    """None is recorded, so `explain decision` would find none."""
    await shown(scheduler, plan="static/1f34febb-46c6-49ea-9e9a-44ff01113ad1")
    _, found = await ask(scheduler, node="n1")
    assert found["bought"]["decision"] == ""
    assert found["bought"]["text"] == "one of the replicas of NodePool/default"
    assert bought_text(found["bought"]).endswith(", one of the replicas of NodePool/default")


async def test_a_running_pod_says_which_decision_bought_its_node(scheduler: Scheduler) -> None:
    await shown(scheduler)
    _, found = await ask(scheduler, pod="default/n1-pod-0")
    assert (found["state"], found["node"]) == ("bound", "n1")
    assert found["bought"]["machine"] == "NodeClaim/machine-n1"
    assert found["bought"]["decision"] == "plan-1"
