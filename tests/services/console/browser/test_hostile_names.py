"""Names and texts of the cluster are somebody else's: they are shown, and are never markup, script or layout."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from shared.domain.workloads.pods import Owner
from tests.services.console.browser.conftest import Visitor, nodes_of
from tests.support.console.records import pair, pending, running
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCRIPT = "<script>window.owned=1</script><img src=x onerror='window.owned=1'>"
QUOTES = "\"'`><svg/onload=window.owned=1>&amp;"
RIGHT_TO_LEFT = "a\u202egnp.exe\u202c-\u05d0\u05d1"
NAMES = (SCRIPT, QUOTES, RIGHT_TO_LEFT, "${window.owned=1}", "javascript:window.owned=1")
VIEWS = ("decisions", "cost", "interruptions", "queues", "health")


async def unharmed(page: Page) -> None:
    """No text became an element or ran."""
    assert await page.evaluate("window.owned") is None
    found = await page.evaluate("document.querySelectorAll('img, script:not([src])').length")
    assert found == 0


@pytest.mark.slow
async def test_hostile_names_stay_text(stage: Stage, visitor: Visitor) -> None:
    pairs = [pair(f"{name}{number}", name, name, name) for number, name in enumerate(NAMES)]
    machines = [replace(one, labels={**one.labels, one.pool: one.pool}) for one, _ in pairs]
    nodes = [node for _, node in pairs]
    pods = [pending(name, owner=Owner(name, name, "u")) for name in NAMES]
    pods += [running(f"{name}-x", nodes[0].name) for name in NAMES]
    stage.peer.explanations = {
        **{f"default/{name}": {"verdict": name, "changes": [{"object": name, "text": name}]} for name in NAMES},
        **{node.name: {"command": SCRIPT, "staysBecause": [{"text": QUOTES, "change": SCRIPT}]} for node in nodes},
    }  # fmt: skip
    await stage.show(machines=machines, nodes=nodes, pods=pods)
    page = await visitor.open()
    await expect(nodes_of(page)).to_have_count(len(NAMES))
    for name in NAMES:
        await expect(nodes_of(page).filter(has_text=f"ip-{name}")).to_have_count(1)
        entry = page.get_by_test_id("pending-list").get_by_role("button").filter(has_text=name)
        await entry.click()
        await expect(page.locator(".verdict")).to_have_text(name)
    await page.locator("#node-list").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("details")).to_contain_text(QUOTES)
    await unharmed(page)


@pytest.mark.nightly
async def test_nor_do_texts_of_the_services_become_markup(stage: Stage, visitor: Visitor) -> None:
    stage.peer.status = {
        "ready": False,
        "reasons": [SCRIPT, QUOTES],
        "recent": [{"machine": SCRIPT, "node": QUOTES, "kind": SCRIPT, "since": 4e9}],
        "decisions": [
            {
                "id": SCRIPT, "at": 4e9, "kind": SCRIPT, "text": QUOTES, "machines": [SCRIPT], "pods": 1,
                "cost": 1.0, "bound": 1.0, "rejected": [{"what": SCRIPT, "why": QUOTES}],
            }
        ],
    }  # fmt: skip
    await stage.tells("decisions", "onerror")
    page = await visitor.open()
    for view in VIEWS:
        await page.get_by_test_id(f"tab-{view}").click()
        shown = page.locator(f"#view-{view}")
        await expect(shown).not_to_be_empty()
        if view in ("decisions", "health", "interruptions"):
            await expect(shown).to_contain_text(SCRIPT)
    await unharmed(page)


@pytest.mark.slow
async def test_an_address_is_text_too(stage: Stage, visitor: Visitor) -> None:
    """A link that somebody sends."""
    page = await visitor.open(
        "?q=%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E&state=%22&view=%3Cb%3E"
    )
    await expect(page.get_by_test_id("search")).to_have_value("<img src=x onerror=window.owned=1>")
    await unharmed(page)


@pytest.mark.nightly
async def test_the_policy_keeps_a_script_from_running(stage: Stage, visitor: Visitor) -> None:
    """Were a text ever to become markup, and the story would notice it."""
    page = await visitor.open()
    await page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned=1'}))"
    )
    assert await page.evaluate("window.owned") is None
    assert len(await page.evaluate("window.violations.splice(0)")) == 1
    assert [one for one in visitor.faults.found if "Content Security Policy" in one]
    visitor.faults.found.clear()
