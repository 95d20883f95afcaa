"""Without a Chromium the stories of the page are skipped with what to install; other stories run without the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.console.browser import chromium, chromium_or_skip
from tests.support.console.story_page import story_page


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_story_of_the_page_is_skipped_with_the_reason() -> None:
    assert chromium() is None
    with pytest.raises(pytest.skip.Exception, match="install the package chromium"):
        chromium_or_skip()


async def test_a_story_of_the_system_runs_without_the_page() -> None:
    async with story_page("http://127.0.0.1:9") as page:
        assert page.page is None
        await page.counts(pods=1, pending=0)
        await page.node("anything")
        await page.view("decisions", "anything")
