"""Karpenter's published dashboards over services that run: each query of them finds a sample with its labels."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli.demo import workload
from shared.domain import labels as keys
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.metrics.dashboards import QUERIES
from tests.support.stories.playground import Playground, ShellKubectl, until
from tests.support.stories.scale_down import inflate, scale, seen, settled

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL]


class Panels:
    """What was scraped from all services until now."""

    def __init__(self, playground: Playground) -> None:
        self._urls = [f"{url}/metrics" for url in playground.environment.services.values()]
        self._found: dict[str, set[str]] = defaultdict(set)
        """Name of a sample -> labels that some sample of it had a value for."""

    async def empty(self) -> list[str]:
        """Scrape once more; the panels whose queries nothing has answered yet."""
        for url in self._urls:
            self._add(await asyncio.to_thread(_read, url))
        return [
            f"{one.dashboard}: {one.panel}: {one.name}"
            for one in QUERIES
            if one.name not in self._found or not {*one.labels} <= self._found[one.name]
        ]

    def _add(self, text: str) -> None:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._found[sample.name] |= {name for name, value in sample.labels.items() if value}


def _read(url: str) -> str:
    with urlopen(url, timeout=30) as answer:
        body: bytes = answer.read()
        return body.decode()


async def test_each_panel_finds_what_it_asks_for(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """After one node came, ran a pod and went because it was empty."""
    panels = Panels(playground)
    await workload.apply_pool(
        playground.kube,
        playground.environment.cluster_name,
        1,
        changes={"limits": {"resources": {"cpu": "100", "memory": "400Gi"}}},
    )
    await inflate(playground, kubectl, 1, keys.SPOT)
    await seen(playground, "the pod runs", settled(1))
    await panels.empty()
    await scale(kubectl, 0)
    await seen(playground, "all is gone", lambda now: not (now.nodes or now.live_instances))
    left: list[str] = []

    async def none_is_empty() -> bool:
        left[:] = await panels.empty()
        return not left

    await until(none_is_empty, "no panel is empty", show=lambda: left)
