"""The page shows the cluster as the mirror has it, while it changes."""

from __future__ import annotations

import re
import time

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines.machine import INSTANCE_TERMINATING, Condition
from tests.services.console.browser.conftest import Visitor, nodes_of
from tests.support.console.records import launching, pair, pending, running
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def counts(page: Page, nodes: int, pods: int) -> None:
    """Wait until the page counts so many."""
    await expect(page.get_by_test_id("node-count")).to_have_text(str(nodes))
    await expect(page.locator("#pod-count")).to_have_text(str(pods))


@pytest.mark.slow
async def test_nodes_and_pods_appear(stage: Stage, visitor: Visitor) -> None:
    """ACC-55: as kube-ops-view shows them."""
    page = await visitor.open()
    await counts(page, 0, 0)
    machine, node = pair("default-a")
    pods = [running(f"web-{number}", node.name) for number in range(3)]
    await stage.show(machines=[machine, launching("default-b")], nodes=[node], pods=pods)
    await counts(page, 2, 3)
    await expect(page.get_by_test_id("price")).to_have_text("$0.384/h")
    options = nodes_of(page)
    await expect(options.filter(has_text="ip-default-a")).to_contain_text("ready, 3 pods")
    await expect(options.filter(has_text="default-b")).to_contain_text("launching")


@pytest.mark.slow
async def test_an_interrupted_machine_drains_and_vanishes(stage: Stage, visitor: Visitor) -> None:
    machine, node = pair("default-a")
    await stage.show(machines=[machine], nodes=[node], pods=[running("web-1", node.name)])
    page = await visitor.open()
    option = nodes_of(page)
    await expect(option).to_contain_text("ready")
    taint = Taint(keys.SPOT_ITN_TAINT_KEY, "", "NoSchedule")
    leaving = replace(machine, terminating=True, terminate_at=time.time() + 120)
    await stage.show(machines=[leaving], nodes=[replace(node, taints=(taint,))])
    await expect(option).to_contain_text(re.compile("draining.*interrupted"))
    ending = {**machine.conditions, INSTANCE_TERMINATING: Condition("True", since=time.time())}
    await stage.show([("pods", "default/web-1")], machines=[replace(leaving, conditions=ending)])
    await expect(option).to_contain_text(re.compile("terminating.*0 pods"))
    await stage.show([("machines", machine.key), ("nodes", node.name)])
    await counts(page, 0, 0)
    await expect(option).to_have_count(0)


@pytest.mark.slow
async def test_pages_opened_late_show_the_same(stage: Stage, visitor: Visitor) -> None:
    first = await visitor.open()
    machine, node = pair("default-a")
    await stage.show(machines=[machine], nodes=[node], pods=[running("web-1", node.name)])
    await counts(first, 1, 1)
    second = await visitor.open()
    await counts(second, 1, 1)
    await stage.show(pods=[pending("web-2")])
    for page in (first, second, await visitor.open()):
        await counts(page, 1, 2)
        await expect(page.get_by_test_id("pending-count")).to_have_text("1")


@pytest.mark.nightly
async def test_search_and_filters_are_kept_in_the_address(stage: Stage, visitor: Visitor) -> None:
    """A link shows the same to somebody else."""
    pairs = [pair("default-a"), pair("batch-b", "batch", capacity="on-demand")]
    machines, nodes = zip(*pairs, strict=True)
    await stage.show(machines=machines, nodes=nodes)
    page = await visitor.open()
    await page.get_by_test_id("search").fill("batch")
    await page.get_by_test_id("group").select_option("zone")
    await page.get_by_label("Capacity").select_option("on-demand")
    await expect(page).to_have_url(re.compile(r"\?group=zone&q=batch&capacity=on-demand$"))
    matches = page.locator("#matches")
    await expect(matches).to_contain_text("1 node")
    other = await visitor.open(page.url.partition("/?")[2].join(["?", ""]))
    await expect(other.get_by_test_id("search")).to_have_value("batch")
    await expect(other.get_by_test_id("group")).to_have_value("zone")
    await expect(other.locator("#matches")).to_have_text(await matches.inner_text())
    await other.get_by_role("button", name="Clear").click()
    await expect(other).to_have_url(re.compile(r"\?group=zone$"))
