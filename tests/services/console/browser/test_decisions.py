"""A decision is opened: what it would have cost by each policy, or why that is not known."""

from __future__ import annotations

import re
import time

import pytest
from playwright.async_api import Page, expect

from tests.services.console.browser.conftest import Visitor
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAN = {
    "id": "p1", "kind": "plan", "text": "1 machine for 3 pods", "machines": ["default-a m5.xlarge"],
    "pods": 3, "cost": 0.2, "bound": 0.19, "rejected": [], "comparable": True,
}  # fmt: skip
REMOVED_AT = time.time() - 30
REMOVAL = {
    "id": "c1", "kind": "multi-node", "text": "delete 2 nodes", "machines": ["- NodeClaim/a"], "pods": 4,
    "cost": -0.3, "bound": None, "reason": "Underutilized", "comparable": False,
    "rejected": [{"what": "3 nodes", "why": "cannot be replaced by a cheaper node"}],
}  # fmt: skip


async def open_decision(stage: Stage, visitor: Visitor) -> Page:
    stage.peer.status |= {"decisions": [{**PLAN, "at": time.time()}, {**REMOVAL, "at": REMOVED_AT}]}
    await stage.tells("decisions", "1 machine for 3 pods")
    page = await visitor.open()
    await page.get_by_test_id("tab-decisions").click()
    await page.locator("#view-decisions summary").first.click()
    return page


@pytest.mark.slow
async def test_an_opened_plan_has_its_price_by_each_policy(stage: Stage, visitor: Visitor) -> None:
    policies = {"FewestNodes": {"cost": 0.2, "machines": 1}, "LowestCost": {"cost": 0.17, "machines": 2}}  # fmt: skip
    stage.peer.explanations["p1"] = {"policies": policies}
    page = await open_decision(stage, visitor)
    view = page.locator("#view-decisions")
    await expect(view).to_contain_text("FewestNodes $0.20")
    await expect(view).to_contain_text("with 1 machine, LowestCost $0.17")
    await expect(view).to_contain_text("with 2 machines")
    removal = view.locator("li.card").filter(has_text="delete 2 nodes")
    await removal.locator("summary").click()
    await expect(removal).to_contain_text("saves $0.300/h")
    await expect(removal).to_contain_text("Why: Underutilized")
    await expect(removal).to_contain_text("3 nodes cannot be replaced by a cheaper node")
    await expect(removal).to_contain_text("It buys no machine, so its price is the same")
    await removal.get_by_role("button", name="Show the cluster at this moment").click()
    await expect(page).to_have_url(re.compile(rf"\?at={REMOVED_AT - 1:.1f}$"))


@pytest.mark.nightly
async def test_a_plan_that_is_not_kept_any_more_says_so(stage: Stage, visitor: Visitor) -> None:
    page = await open_decision(stage, visitor)
    await expect(page.locator("#view-decisions")).to_contain_text("p1 is not known")
