"""The views beside the cluster: interruptions, queues, health."""

from __future__ import annotations

import re
import time

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.kube.resources import LEASES, NAMESPACES
from shared.redis import streams
from tests.services.console.browser.conftest import Visitor
from tests.support.console.records import pair, running
from tests.support.console.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.slow
async def test_a_deadline_counts_down_and_the_pods_go_somewhere(
    stage: Stage, visitor: Visitor
) -> None:
    (machine, node), (other, place) = pair("default-a"), pair("default-b")
    taint = Taint(keys.SPOT_ITN_TAINT_KEY, "", "NoSchedule")
    notice = {"machine": machine.key, "node": node.name, "kind": "spot_interrupted"}
    now = time.time()
    stage.peer.status |= {
        "recent": [{**notice, "since": now, "deadline": now + 100}],
        "decisions": [{"id": "p", "at": now, "moves": {"default/web-1": other.name}}],
    }
    pods = [running("web-1", node.name), running("web-2", node.name)]
    closed = replace(node, taints=(taint,))
    await stage.show(machines=[machine, other], nodes=[closed, place], pods=pods)
    await stage.tells("interruptions", "web-2")
    await stage.tells("interruptions", place.name)
    page = await visitor.open("?view=interruptions")
    card = page.locator("#view-interruptions li.card")
    await expect(card.locator(".countdown")).to_have_text(re.compile(r"^in 1m"))
    before = await card.locator(".countdown").inner_text()
    await expect(card.locator(".countdown")).not_to_have_text(before)
    await expect(card).to_contain_text(re.compile(r"1 pod.*no place yet.*1 still here"))
    await expect(card).to_contain_text(re.compile(rf"1 pod.*{place.name}.*m5\.xlarge"))
    gone = [(kind, key) for kind, key in (("machines", machine.key), ("nodes", node.name))]
    await stage.show([*gone, *(("pods", pod.key) for pod in pods)])
    await expect(card).to_contain_text(re.compile(r"gone.*before its deadline"))
    await expect(card).to_contain_text(re.compile(rf"1 pod.*{place.name}.*all left"))
    await card.get_by_role("button", name=place.name).click()
    await expect(page.get_by_test_id("details")).to_contain_text(place.name)


@pytest.mark.nightly
async def test_a_dead_letter_has_its_body_and_the_command_that_replays_it(
    stage: Stage, visitor: Visitor
) -> None:
    letters = stage.bus.dead_letters(streams.LAUNCHES)
    await letters.add(
        source="a/1", group="launcher", fields={b"body": b"what it said", b"key": b"k"},
        deliveries=1, error=ValueError("no JSON"), once="1/a",
    )  # fmt: skip
    (letter,) = await letters.newest(1)
    key = f"{stage.bus.prefix}{streams.LAUNCHES}"
    await stage.bus.redis.xadd(key, {"body": "x"})
    await stage.bus.redis.xgroup_create(key, "launcher", "0")
    page = await visitor.open("?view=queues")
    view = page.locator("#view-queues")
    row = view.locator("tr").filter(has_text="launches")
    await expect(row.locator("td").nth(1)).to_have_text("1")  # waits
    await expect(row.locator("td").nth(3)).to_have_text(re.compile(r"^\d+s$"))  # the oldest
    await expect(view).to_contain_text("no JSON")
    await view.get_by_text("Body", exact=True).click()
    await expect(view.locator("pre.body")).to_contain_text("what it said")
    replay = f"dovetail dead-letters replay {streams.LAUNCHES} {letter.id}"
    await expect(view.locator(".command code")).to_have_text(replay)


@pytest.mark.nightly
async def test_health_names_reasons_leases_and_the_age_of_watches(
    stage: Stage, visitor: Visitor
) -> None:
    stage.peer.status = {"ready": False, "reasons": ["no catalogue yet"], "leading": True}
    page = await visitor.open("?view=health")
    view = page.locator("#view-health")
    services = view.locator("section").filter(has_text="Services")
    await expect(services.locator("tr").filter(has_text="scheduler")).to_contain_text(
        re.compile(r"not ready.*no catalogue yet.*leading")
    )
    await expect(view).to_contain_text("No Lease exists: leader election is off")
    watches = view.locator("section").filter(has_text="Watches")
    await expect(watches.locator("tr").filter(has_text="pods")).to_contain_text(
        re.compile(r"sound.*(now|ago)")
    )
    lease = {"holderIdentity": "scheduler-1", "renewTime": "2026-01-01T00:00:00.000000Z"}
    name = "karpenter-leader-election"
    await stage.kube.create(NAMESPACES, {"metadata": {"name": "karpenter"}})
    await stage.kube.create(
        LEASES,
        {"metadata": {"name": name, "namespace": "karpenter"}, "spec": lease},
    )
    leases = view.locator("section").filter(has_text="Leases")
    await expect(leases).to_contain_text(re.compile(rf"{name}.*scheduler-1.*ago"))
    await stage.kube.delete(LEASES, name, "karpenter")


@pytest.mark.nightly
async def test_the_ledgers_say_what_rules_cost_and_which_consolidations_are_regretted(
    stage: Stage, visitor: Visitor
) -> None:
    rule = {
        "workload": "shop/Deployment/web", "costPerHour": 0.4, "rule": "anti-affinity", "pricePerHour": 0.2,
        "pricePerMonth": 146.0, "placesMore": 0,
    }  # fmt: skip
    held = {"workload": "shop/Deployment/db", "rule": "zone", "pricePerHour": None, "placesMore": 2}
    stage.peer.ledgers["constraints"] = {
        "plannedPerHour": 1.2, "podsWithoutAPlace": 0, "nodesHeld": 1, "workloadsLeft": 0,
        "rules": [rule, rule | held],
    }  # fmt: skip
    page = await visitor.open("?view=ledgers")
    view = page.locator("#view-ledgers")
    row = view.locator("tr").filter(has_text="shop/Deployment/web")
    await expect(row).to_contain_text(re.compile(r"anti-affinity.*\$0\.200/h.*\$146\.00"))
    await expect(view).to_contain_text("without it 2 pods more would have a place")
    await expect(view).to_contain_text("1 node may not be drained and stays")
    await expect(view).to_contain_text("nothing is recorded")


@pytest.mark.nightly
async def test_a_consolidation_that_did_not_pay_is_marked(stage: Stage, visitor: Visitor) -> None:
    same = {
        "pools": ["NodePool/web"],
        "reason": "Underutilized",
        "saved": 0.1,
        "movedPods": 4,
        "net": -0.3,
    }
    command = same | {
        "id": "c1", "at": "2026-11-26T10:00:00Z", "promisedPerHour": 0.5, "seconds": 3720.0, "promised": 0.5,
        "until": "bought again",
    }  # fmt: skip
    total = same | {"commands": 1, "promised": 0.5, "regretted": 1}
    stage.peer.ledgers["regret"] = {"commands": [command], "totals": [total], "gaps": 0}
    page = await visitor.open("?view=ledgers")
    view = page.locator("#view-ledgers")
    row = view.locator("tr").filter(has_text="bought again")
    await expect(row).to_contain_text(re.compile(r"Underutilized.*\$0\.500/h.*1h 2m"))
    await expect(row.locator("strong.bad")).to_have_text("-$0.300")
