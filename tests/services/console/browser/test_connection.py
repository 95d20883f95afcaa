"""The page goes on after the console was away, and says so while it is."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.services.console.browser.conftest import Visitor, nodes_of
from tests.support.console.records import pair, pending
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

AGE = re.compile(r"^data is \d+s old, since \d\d:\d\d:\d\d$")


@pytest.mark.slow
async def test_the_page_connects_again_and_is_current(stage: Stage, visitor: Visitor) -> None:
    """What changed while the console was away is shown; what is gone is not."""
    old, current = pair("default-old"), pair("default-new")
    await stage.show(machines=[old[0]], nodes=[old[1]])
    page = await visitor.open()
    await expect(nodes_of(page)).to_contain_text("ip-default-old")
    visitor.faults.connection_may_fail = True
    await stage.stop()
    await expect(page.get_by_test_id("connection")).to_have_text("reconnecting")
    gone = [("machines", old[0].key), ("nodes", old[1].name)]
    await stage.show(gone, machines=[current[0]], nodes=[current[1]], pods=[pending("web-1")])
    await expect(nodes_of(page)).to_contain_text("ip-default-old")
    await expect(page.get_by_test_id("data-age")).to_have_text(AGE)
    await stage.start()
    await expect(page.get_by_test_id("connection")).to_have_text("live")
    await expect(page.get_by_test_id("data-age")).to_be_hidden()
    await expect(nodes_of(page)).to_contain_text("ip-default-new")
    await expect(nodes_of(page)).to_have_count(1)
    await expect(page.get_by_test_id("pending-count")).to_have_text("1")
