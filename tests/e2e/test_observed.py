"""What dashboards and alerts ask for, running services serve."""

from __future__ import annotations

import asyncio
import re

import aiohttp
import pytest

from shared.metrics import Metrics
from tests.deploy.observability.rule_files import KNOWN, RULES
from tests.deploy.observability.test_dashboards import QUERIES, plain
from tests.support.metrics.promql import PARTS, named
from tests.support.stories.playground import Playground, until

pytestmark = pytest.mark.e2e
OF_SAMPLE = {
    one.name + part: one for one in Metrics("test").declared for part in PARTS.get(one.kind, ("",))
}


def asked() -> set[str]:
    """Samples that a query or a rule names, without those that rules record."""
    expressions = [plain(one[1]) for one in QUERIES] + [str(rule["expr"]) for rule in RULES]
    names: set[str] = set().union(*(named(one).metrics for one in expressions))
    assert len(names) > 40
    return {name for name in names if ":" not in name}


async def test_every_metric_of_a_dashboard_or_alert_is_served_by_the_service_it_is_said_of(
    playground: Playground,
) -> None:
    """With the leaders' own: a standby serves nothing of the cluster."""
    assert asked() <= KNOWN.keys()

    async def served() -> bool:
        return not await missing(playground)

    await until(served, "all metrics are served", show=lambda: missing(playground))


async def missing(playground: Playground) -> set[tuple[str, str]]:
    """(service, metric) of what is not served."""
    names = {
        name: url for name, url in playground.environment.services.items() if name != "console"
    }
    async with aiohttp.ClientSession() as client:
        texts = await asyncio.gather(*(scrape(client, url) for url in names.values()))
    served = {
        service: set(re.findall(r"^# TYPE (\S+)", text, re.M))
        for service, text in zip(names, texts, strict=True)
    }
    return {
        (service, OF_SAMPLE[name].name)
        for name in asked()
        for service in OF_SAMPLE[name].by
        if OF_SAMPLE[name].name not in served[service]
    }


async def scrape(client: aiohttp.ClientSession, url: str) -> str:
    async with client.get(f"{url}/metrics") as answer:
        return await answer.text()
