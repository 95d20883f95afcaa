"""What a command's replacements would have cost by each packing policy."""

from __future__ import annotations

import orjson
import pytest

from shared.kube.client import Kube
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.disruption.test_commands import LARGE, begun, oversized

__all__ = ["oversized"]


@pytest.mark.slow
async def test_a_command_has_a_price_by_each_policy(oversized: Scheduler, kube: Kube) -> None:
    """What its replacement would have cost by the other policy; a plan's machines and pending pods do not count."""
    await begun(oversized, kube)
    (command,) = oversized.planner.reporter.decisions.documents()
    found = await oversized.parts.explainer.answer(orjson.dumps({"decision": command["id"]}), {})
    policies = orjson.loads(found.body)["policies"]
    assert set(policies) == {"FewestNodes", "LowestCost", "Balanced"}
    assert all(one["machines"] == 1 and not one["problem"] for one in policies.values())
    price = LARGE.machine.noted_price or world_price(oversized)
    cheapest = min(one["cost"] for one in policies.values())
    assert command["cost"] == pytest.approx(cheapest - price / 1e6)


def world_price(scheduler: Scheduler) -> int:
    """Of the large node, as the last survey found it."""
    (candidate,) = scheduler.disruption.findings.candidates
    return candidate.price_micro_usd_per_hour or 0
