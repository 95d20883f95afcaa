"""One browser for the session; for each story a console of its own, and a page that must end without a fault."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from shared.kube.client import Kube
from tests.services.conftest import redis_url, store_with_our_kinds
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.console.browser import (
    PATIENCE_MILLISECONDS,
    Faults,
    chromium_or_skip,
    launched,
    load,
    new_context,
)
from tests.support.console.stage import Stage, stage_at

__all__ = ["redis_url"]

_numbers = itertools.count(1)
expect.set_options(timeout=PATIENCE_MILLISECONDS)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The machine's Chromium."""
    async with launched(chromium_or_skip()) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kube]:
    """An API server for all stories: the console only reads events and Leases there."""
    with embedded_api_server(store=store_with_our_kinds()) as url:
        path: Path = tmp_path_factory.mktemp("server") / "kubeconfig"
        client = await connect(write_kubeconfig(path, url))
        yield client
        await client.close()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(browser: Browser, server: Kube, redis_url: str) -> AsyncIterator[Stage]:
    """A running console with an empty mirror. After the browser, so that nothing starts without one."""
    async with stage_at(server, redis_url, f"page-{os.getpid()}-{next(_numbers)}") as made:
        yield made


@dataclass
class Visitor:
    """Opens pages of the console, which must show no fault until the story's end."""

    stage: Stage
    context: BrowserContext
    faults: Faults

    async def open(self, query: str = "") -> Page:
        """A new page that shows the live picture."""
        page = await self.context.new_page()
        await load(page, self.stage.url + query, self.faults)
        await expect(page.get_by_test_id("connection")).to_have_text("live")
        return page


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(browser: Browser, stage: Stage) -> AsyncIterator[Visitor]:
    """Fails the story when its pages reported an error or broke the policy for their content."""
    faults = Faults()
    context = await new_context(browser, faults, reduced_motion="reduce")
    yield Visitor(stage, context, faults)
    for page in context.pages:
        faults.found += await page.evaluate("window.violations")
    await context.close()  # before the console stops: an open stream would hold it for two seconds
    assert faults.found == []


def nodes_of(page: Page) -> Locator:
    """The nodes as a screen reader finds them; the canvas shows the same."""
    return page.locator("#node-list").get_by_role("option")
