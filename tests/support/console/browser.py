"""The machine's own Chromium, driven by Playwright, and pages whose faults are collected.

Playwright's own browsers are not used: they would be fetched from the network.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
MISSING = f"no browser: install the package chromium (looked for {', '.join(PROGRAMS)} on PATH)"
PATIENCE_MILLISECONDS = 20_000
REFUSED = "net::ERR_"
"""Begins what Chromium writes of a connection that fails; a page cannot keep it from writing that."""
NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
MOST_LOADS = 5


def chromium() -> str | None:
    """Path of the browser; None without one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def chromium_or_skip() -> str:
    """Path of the browser. Without one the test is skipped, with what to install."""
    return chromium() or pytest.skip(MISSING)


@asynccontextmanager
async def launched(program: str, *arguments: str) -> AsyncIterator[Browser]:
    """A headless browser during the block."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=[*ARGUMENTS, *arguments]
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Faults:
    """What went wrong on the pages of one context: errors on the console, exceptions, violations of the policy."""

    connection_may_fail: bool = False
    """While the story stops the console, Chromium itself reports that nobody listens."""
    network_changed: bool = False
    """An interface of the machine came or went, such as a container's: Chromium then drops what it was loading."""
    found: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Collect the faults of this page."""
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.found.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        if NETWORK_CHANGED in message.text:
            self.network_changed = True
            return
        expected = self.connection_may_fail and REFUSED in message.text
        if message.type in ("error", "warning") and not expected:
            self.found.append(f"{message.type}: {message.text}")


async def load(page: Page, url: str, faults: Faults) -> None:
    """Go to ``url``; again, when the network of the machine changed meanwhile."""
    for _ in range(MOST_LOADS):
        faults.network_changed = False
        await page.goto(url)
        if not faults.network_changed:
            return


VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


async def new_context(browser: Browser, faults: Faults, **words: object) -> BrowserContext:
    """A context of its own storage, whose pages tell ``faults``. ``words``: as of ``Browser.new_context``."""
    options: dict[str, object] = {"viewport": {"width": 1280, "height": 800}, **words}
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    await context.add_init_script(VIOLATIONS)
    context.on("page", faults.watch)
    return context
