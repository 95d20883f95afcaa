"""A pending pod is in front, with the reason and the smallest change that would place it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.services.console.browser.conftest import Visitor
from tests.support.console.records import pending
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXPLAINED = {
    "pod": "default/big-1",
    "verdict": "No pool can create a node for this pod: it asks for 900 CPUs.",
    "changes": [
        {"object": "Pod default/big-1", "text": "lower the request of cpu to 127"},
        {"object": "NodePool default", "text": "allow the type x2.large"},
    ],
}


@pytest.mark.slow
async def test_a_pending_pod_is_listed_with_its_verdict(stage: Stage, visitor: Visitor) -> None:
    stage.peer.explanations["default/big-1"] = EXPLAINED
    page = await visitor.open()
    await expect(page.get_by_text("No pod is pending.")).to_be_visible()
    waiting = pending("big-1", cpu="900")
    await stage.show(pods=[waiting, pending("small-1", unschedulable=False)])
    entries = page.get_by_test_id("pending-list").get_by_role("button")
    await expect(entries).to_have_count(2)
    await expect(entries.filter(has_text="big-1")).to_contain_text("no room")
    await expect(entries.filter(has_text="small-1")).to_contain_text("not tried")
    await entries.filter(has_text="big-1").click()
    details = page.get_by_test_id("details")
    await expect(details).to_contain_text("it asks for 900 CPUs")
    await expect(details).to_contain_text("lower the request of cpu to 127; and allow")
    await expect(details).to_contain_text("dovetail explain pod default/big-1")
    await expect(details).to_contain_text("kubectl edit nodepool default")
    await expect(page).to_have_url(re.compile(r"pod=default%2Fbig-1"))
    await stage.show([("pods", waiting.key)])
    await expect(entries).to_have_count(1)


@pytest.mark.slow
async def test_the_reason_and_the_change_stand_in_front(stage: Stage, visitor: Visitor) -> None:
    """Nobody has to select the pod: while a page is open, the console asks for each kind of pod once."""
    stage.peer.explanations["default/big-1"] = EXPLAINED
    reason = "incompatible with pool, overhead={} (no instance type has enough resources)"
    stage.peer.status |= {"unschedulable": {"default/big-1": reason}}
    await stage.show(pods=[pending("big-1", cpu="900")])
    page = await visitor.open()
    entry = page.get_by_test_id("pending-list").get_by_role("button")
    await expect(entry.locator(".why")).to_have_text("no instance type has enough resources")
    await expect(entry.locator(".why")).to_have_attribute("title", reason)
    await expect(entry.locator(".change")).to_contain_text("lower the request of cpu to 127")


@pytest.mark.nightly
async def test_a_link_to_a_pod_opens_its_details(stage: Stage, visitor: Visitor) -> None:
    stage.peer.explanations["default/big-1"] = EXPLAINED
    await stage.show(pods=[pending("big-1")])
    page = await visitor.open("?pod=default%2Fbig-1")
    await expect(page.get_by_test_id("details")).to_contain_text("No pool can create a node")


@pytest.mark.nightly
async def test_a_scheduler_that_refuses_is_told(stage: Stage, visitor: Visitor) -> None:
    await stage.show(pods=[pending("big-1")])
    page = await visitor.open("?pod=default%2Fbig-1")
    await expect(page.get_by_test_id("details")).to_contain_text("default/big-1 is not known")


@pytest.mark.nightly
async def test_a_scheduler_that_is_away_is_named_beside_the_pods(
    stage: Stage, visitor: Visitor
) -> None:
    """Its last reasons may be wrong by now: none is shown."""
    stage.peer.away = True
    await stage.show(pods=[pending("big-1")])
    page = await visitor.open()
    missing = page.locator("#pending-missing")
    await expect(missing).to_contain_text("Why pods are pending is not known: the scheduler")
    stage.peer.away = False
    await expect(missing).to_be_empty()
