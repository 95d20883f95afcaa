"""The console's page beside a running stack, for stories that watch themselves in a browser.

Without a browser on this machine a story runs all the same, and nothing is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from re import Pattern
from typing import Any

from playwright.async_api import Page, TimeoutError, expect

from services.console.feed.history import replayed
from services.console.status.routes import MOST_CHANGES_SECONDS
from tests.support.console.browser import Faults, chromium, launched, load, new_context
from tests.support.stories.playground import STORY_SECONDS
from tests.support.waiting import wait_until

PATIENCE_MILLISECONDS = STORY_SECONDS * 1000
SEEN = """
window.seen = new Set();
setInterval(() => {
  for (const option of document.querySelectorAll('#node-list [role=option]')) {
    if (window.seen.size < 50_000) window.seen.add(option.textContent);
  }
}, 50);
"""
"""Keeps what the list of nodes ever said: a state may pass while the test looks elsewhere."""


@dataclass
class StoryPage:
    """``page`` None: there is no browser. Every look waits until the page shows it."""

    page: Page | None

    async def counts(self, *, pods: int, pending: int) -> None:
        """So many pods, and so many of them pending."""
        if self.page is not None:
            await self._text(
                "#pod-count", f"{pods:,}".replace(",", " ") if pods > 9999 else str(pods)
            )
            await self._text("[data-testid=pending-count]", str(pending))

    async def node(self, text: str) -> None:
        """A node that a screen reader found with this text since the page opened; a regular expression."""
        if self.page is not None:
            found = "text => [...window.seen].some((one) => new RegExp(text, 's').test(one))"
            try:
                await self.page.wait_for_function(
                    found, arg=text, polling=200, timeout=PATIENCE_MILLISECONDS
                )
            except TimeoutError as error:
                seen = await self.page.evaluate("[...window.seen].slice(-20)")
                raise AssertionError(
                    f"no node was listed with {text!r}; the last: {seen}"
                ) from error

    async def recorded(self, *, pods: int) -> None:
        """Wait for a recorded moment in which one node had at least so many pods.

        The list of nodes is drawn once a second, which may skip the moment; what the slider plays has every change, as
        long as it is kept.
        """
        most = 0

        async def reached() -> bool:
            nonlocal most
            most = max([most, *[_most_pods(moment) async for moment in self._moments()]])
            return most >= pods

        if self.page is not None:
            what = f"a moment with {pods} pods on a node"
            await wait_until(
                reached, what, seconds=PATIENCE_MILLISECONDS / 1000, show=lambda: most, every=1.0
            )

    async def _moments(self) -> AsyncIterator[dict[str, Any]]:
        """The picture after every recorded change."""
        span = await self._get("history")
        picture = await self._get(f"history/at?t={span['from']}")
        begin = span["from"]
        while begin < span["to"]:
            end = min(begin + MOST_CHANGES_SECONDS, span["to"])
            for change in (await self._get(f"history/changes?from={begin}&to={end}"))["changes"]:
                yield (picture := replayed(picture, [change]))
            begin = end

    async def _get(self, path: str) -> Any:
        assert self.page is not None
        read = "async path => (await fetch(`api/${path}`)).json()"
        return await self.page.evaluate(read, path)

    async def view(self, name: str, text: str | Pattern[str]) -> None:
        """The view of this name, such as ``decisions``, with this text in it. Then back to the cluster."""
        if self.page is not None:
            await self.page.get_by_test_id(f"tab-{name}").click()
            panel = self.page.get_by_role("tabpanel")
            await expect(panel).to_contain_text(text, timeout=PATIENCE_MILLISECONDS)
            await self.page.get_by_test_id("tab-cluster").click()

    async def decision(self, text: Pattern[str], inside: Pattern[str]) -> None:
        """The decision with this text, which shows ``inside`` when it is opened. Then back to the cluster."""
        if self.page is not None:
            await self.page.get_by_test_id("tab-decisions").click()
            found = self.page.locator("#view-decisions li").filter(has_text=text).first
            await found.locator("summary").click(timeout=PATIENCE_MILLISECONDS)
            await expect(found).to_contain_text(inside, timeout=PATIENCE_MILLISECONDS)
            await self.page.get_by_test_id("tab-cluster").click()

    async def _text(self, selector: str, text: str) -> None:
        assert self.page is not None
        found = self.page.locator(selector)
        await expect(found).to_have_text(text, timeout=PATIENCE_MILLISECONDS)


def _most_pods(picture: dict[str, Any]) -> int:
    nodes = Counter(pod["node"] for pod in picture["pods"] if pod["node"])
    return max(nodes.values(), default=0)


@asynccontextmanager
async def story_page(url: str) -> AsyncIterator[StoryPage]:
    """The page at ``url`` during the block. Fails when it reported an error."""
    program = chromium()
    if program is None:
        yield StoryPage(None)
        return
    faults = Faults()
    async with launched(program) as browser:
        context = await new_context(browser, faults, reduced_motion="reduce")
        page = await context.new_page()
        await page.add_init_script(SEEN)
        await load(page, url, faults)
        await expect(page.get_by_test_id("connection")).to_have_text(
            "live", timeout=PATIENCE_MILLISECONDS
        )
        yield StoryPage(page)
        faults.found += await page.evaluate("window.violations")
    assert faults.found == []
