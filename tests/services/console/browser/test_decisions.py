"""A decision is opened: what it would have cost by each policy, or why that is not known."""

from __future__ import annotations

import time

import pytest
from playwright.async_api import Page, expect

from tests.services.console.browser.conftest import Visitor
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAN = {
    "id": "p1", "kind": "plan", "text": "1 machine for 3 pods", "machines": ["default-a m5.xlarge"],
    "pods": 3, "cost": 0.2, "bound": 0.19, "rejected": [],
}  # fmt: skip


async def open_decision(stage: Stage, visitor: Visitor) -> Page:
    stage.peer.status |= {"decisions": [{**PLAN, "at": time.time()}]}
    await stage.tells("decisions", "1 machine for 3 pods")
    page = await visitor.open()
    await page.get_by_test_id("tab-decisions").click()
    await page.locator("#view-decisions summary").click()
    return page


async def test_an_opened_plan_has_its_price_by_each_policy(stage: Stage, visitor: Visitor) -> None:
    policies = {"FewestNodes": {"cost": 0.2, "machines": 1}, "LowestCost": {"cost": 0.17, "machines": 2}}  # fmt: skip
    stage.peer.explanations["p1"] = {"policies": policies}
    page = await open_decision(stage, visitor)
    view = page.locator("#view-decisions")
    await expect(view).to_contain_text("FewestNodes $0.20")
    await expect(view).to_contain_text("with 1 machine, LowestCost $0.17")
    await expect(view).to_contain_text("with 2 machines")


async def test_a_plan_that_is_not_kept_any_more_says_so(stage: Stage, visitor: Visitor) -> None:
    page = await open_decision(stage, visitor)
    await expect(page.locator("#view-decisions")).to_contain_text("p1 is not known")
