"""The last hour: a moment by its address, played on, paused, and shared as a link."""

from __future__ import annotations

import math
import re
import time

import aiohttp
import pytest
from playwright.async_api import expect

from tests.services.console.browser.conftest import Visitor, nodes_of
from tests.support.console.records import pair
from tests.support.console.stage import Stage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def recorded(stage: Stage, name: str) -> float:
    """The moment at which the record has this node, in seconds since the epoch."""
    async with aiohttp.ClientSession(stage.url) as client:

        async def shown() -> bool:
            async with client.get(f"/api/history/at?t={time.time()}") as answer:
                return name in await answer.text()

        await wait_until(shown, f"{name} is recorded", every=0.05)
    moment = math.ceil(time.time() * 10) / 10  # an address has tenths
    await wait_until(lambda: time.time() > moment, "the moment is over", every=0.02)
    return moment


@pytest.mark.nightly
async def test_a_moment_is_shown_played_paused_and_shared(stage: Stage, visitor: Visitor) -> None:
    (first, its_node), (second, other) = pair("default-a"), pair("default-b")
    await stage.show(machines=[first], nodes=[its_node])
    moment = await recorded(stage, its_node.name)
    await stage.show(machines=[second], nodes=[other])
    await recorded(stage, other.name)
    await visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await visitor.context.new_page()
    await page.goto(f"{stage.url}?at={moment:.1f}")
    await expect(page.get_by_test_id("connection")).to_have_text("showing the past")
    await expect(nodes_of(page)).to_have_count(1)
    await expect(page.locator("#moment")).to_contain_text("ago")
    await page.get_by_role("button", name="Copy link").click()
    await expect(page.locator("#copy-moment")).to_have_text("Copied")
    shared = await page.evaluate("navigator.clipboard.readText()")
    await page.locator("#speed").select_option("1")
    await page.get_by_role("button", name="Play").click()
    await expect(page.get_by_test_id("connection")).to_have_text("playing the past")
    await expect(nodes_of(page)).to_have_count(2)
    link = await visitor.context.new_page()
    await link.goto(shared)
    await expect(link.get_by_test_id("connection")).to_have_text("showing the past")
    await expect(nodes_of(link)).to_have_count(1)
    await link.get_by_role("button", name="Play").click()
    await link.get_by_role("button", name="Pause").click()
    await expect(link.get_by_test_id("connection")).to_have_text(re.compile("past|live"))
    await link.get_by_test_id("slider").focus()
    await link.keyboard.press("Home")
    await expect(link).to_have_url(re.compile("at="))
    await link.get_by_role("button", name="Back to now").click()
    await expect(link.get_by_test_id("connection")).to_have_text("live")
    await expect(nodes_of(link)).to_have_count(2)
