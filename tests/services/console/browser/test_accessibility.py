"""axe-core finds no serious fault in any view, in the light and in the dark theme."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Page, expect

from shared.redis import streams
from tests.services.console.browser.conftest import Visitor
from tests.support.console.records import launching, pair, pending, running
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text()
VIEWS = {
    "cluster": "big-1",
    "decisions": "1 machine for 3 pods",
    "cost": "default",
    "interruptions": "ip-default-a",
    "queues": "no JSON",
    "health": "scheduler",
}
"""View -> what it shows."""
RUN = """async () => {
  const {violations} = await axe.run(document, {resultTypes: ['violations'], elementRef: false});
  return violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
    .map(({id, nodes}) => ({id, where: nodes.slice(0, 3).map((one) => [one.html, one.failureSummary])}));
}"""
DECISION = {
    "id": "p1",
    "kind": "plan",
    "text": "1 machine for 3 pods",
    "machines": ["default-a m5.xlarge"],
    "pods": 3,
    "cost": 0.2,
    "bound": 0.19,
    "rejected": [{"what": "pod default/big-1", "why": "too large"}],
}


async def faults_of(page: Page) -> list[dict[str, Any]]:
    """Serious and critical violations of what is visible now."""
    found: list[dict[str, Any]] = await page.evaluate(RUN)
    return found


async def furnish(stage: Stage) -> None:
    """Something to see in every view."""
    (machine, node), now = pair("default-a"), time.time()
    stage.peer.explanations["default/big-1"] = {
        "verdict": "it is too large",
        "changes": [{"object": "Pod default/big-1", "text": "lower its request"}],
    }
    notice = {"machine": machine.key, "node": node.name, "kind": "spot_interruption"}
    stage.peer.status |= {
        "recent": [{**notice, "since": now, "deadline": now + 90}],
        "decisions": [{**DECISION, "at": now}],
    }
    letters = stage.bus.dead_letters(streams.LAUNCHES)
    await letters.add(
        source="a/1", group="launcher", fields={b"body": b"?", b"key": b"k"}, deliveries=1,
        error=ValueError("no JSON"), once="1/a",
    )  # fmt: skip
    pods = [pending("big-1"), *(running(f"web-{number}", node.name) for number in range(3))]
    await stage.show(machines=[machine, launching("default-b")], nodes=[node], pods=pods)
    await stage.tells("decisions", "1 machine for 3 pods")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
async def test_no_view_has_a_serious_fault(
    stage: Stage, visitor: Visitor, scheme: Literal["light", "dark"]
) -> None:
    await furnish(stage)
    page = await visitor.open("?pod=default%2Fbig-1")
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await expect(page.get_by_test_id("details")).to_contain_text("too large")
    await page.evaluate(AXE)
    found = {}
    for view, text in VIEWS.items():
        await page.get_by_test_id(f"tab-{view}").click()
        await expect(page.locator(f"#view-{view}")).to_contain_text(text)
        if faults := await faults_of(page):
            found[view] = faults
    assert found == {}
