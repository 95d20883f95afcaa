"""Everything is reached without a mouse."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.services.console.browser.conftest import Visitor, nodes_of
from tests.support.console.records import pair, pending, running
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
MOST_TABS = 40


async def focused(page: Page) -> str:
    """The id or the text of the element with the focus."""
    found: str = await page.evaluate(
        "document.activeElement.id || document.activeElement.textContent.trim()"
    )
    return found


async def tab_to(page: Page, wanted: str) -> None:
    """Press Tab until this element has the focus. Fails when it never gets there."""
    seen = []
    for _ in range(MOST_TABS):
        await page.keyboard.press("Tab")
        seen.append(await focused(page))
        if seen[-1] == wanted:
            return
    pytest.fail(f"Tab never comes to {wanted}: {seen}")


@pytest.mark.slow
async def test_from_load_to_the_details_of_a_node_and_back(stage: Stage, visitor: Visitor) -> None:
    pairs = [pair(f"default-{letter}") for letter in "abc"]
    machines, nodes = zip(*pairs, strict=True)
    await stage.show(machines=machines, nodes=nodes, pods=[running("web-1", nodes[1].name)])
    for node in nodes:
        stays = [{"text": f"{node.name} stays", "pod": "default/web-1", "change": "drop it"}]
        stage.peer.explanations[node.name] = {"staysBecause": stays}
    page = await visitor.open()
    await expect(nodes_of(page)).to_have_count(3)
    await page.keyboard.press("Tab")
    assert await focused(page) == "Skip to the content"
    await tab_to(page, "node-list")
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowRight")
    chosen = page.locator("#node-list [aria-selected=true]")
    await expect(chosen).to_have_count(1)
    name = (await chosen.inner_text()).partition(",")[0]
    await page.keyboard.press("Enter")
    details = page.get_by_test_id("details")
    await expect(details).to_be_focused()
    await expect(details).to_contain_text(name)
    await expect(details).to_contain_text(f"{name} stays")
    await page.keyboard.press("Escape")
    await expect(details).to_be_hidden()
    assert await focused(page) == "node-list"
    await expect(chosen).to_contain_text(name)


@pytest.mark.slow
async def test_a_pending_pod_and_back(stage: Stage, visitor: Visitor) -> None:
    stage.peer.explanations["default/big-1"] = {"verdict": "it is too large"}
    await stage.show(pods=[pending("big-1")])
    page = await visitor.open()
    entry = page.get_by_test_id("pending-list").get_by_role("button")
    await expect(entry).to_be_visible()
    for _ in range(MOST_TABS):
        await page.keyboard.press("Tab")
        if await entry.evaluate("element => element === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    details = page.get_by_test_id("details")
    await expect(details).to_contain_text("it is too large")
    await page.keyboard.press("Escape")
    await expect(details).to_be_hidden()
    await expect(entry).to_be_focused()


@pytest.mark.nightly
async def test_tabs_are_changed_with_arrows(stage: Stage, visitor: Visitor) -> None:
    page = await visitor.open()
    await tab_to(page, "tab-cluster")
    for name in ("decisions", "cost", "interruptions", "queues", "health"):
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_test_id(f"tab-{name}")).to_be_focused()
        await expect(page).to_have_url(re.compile(f"view={name}"))
        await expect(page.locator(f"#view-{name}")).to_be_visible()
