"""What the nodes cost in the end against what the first plan said, with kube-scheduler placing the pods.

400 pods of 200 sizes need several nodes, and kube-scheduler spreads pods where a plan packs them: what then fits
nowhere is bought for once more. ``-s`` prints the figures of docs/operating/settings.md.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from bench.inputs import workloads
from bench.over_time.realised import quantities
from cli.demo import workload
from local.stack import Stack
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.kube.resources import NODE_POOLS, PODS
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.real_cluster.stack import (
    create_daemon_sets,
    real_stack,
    take_workloads_away,
)
from tests.support.stories.playground import NAMESPACE, Playground, playground_on, until

pytestmark = pytest.mark.kubernetes
APP = "realised"
MOST_CPU = "33"
RUN_SECONDS = 300.0
MOST_OVER_PLAN = {"off": 1.15, "on": 1.01}
"""Of what was planned. Measured on 1.34.2: 1.089 to 1.10 without nominations, 1.000 with them."""


@dataclass(frozen=True)
class Outcome:
    """Dollars per hour, nodes, and what became of nominations."""

    planned: float
    realised: float
    machines: int
    nominations: dict[str, int]

    @property
    def over_plan(self) -> float:
        return self.realised / self.planned


def pods(count: int) -> list[dict[str, Any]]:
    """Bare pods without rules, for added nodes alone."""
    return [pod(number, one.requests) for number, one in enumerate(workloads.zipf(count))]


def pod(number: int, requests: Mapping[str, int]) -> dict[str, Any]:
    """A real server takes no request of ``pods``, which every pod has."""
    asked = {name: amount for name, amount in requests.items() if name != "pods"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": quantities(asked)}}
    spec = {
        "nodeSelector": {keys.NODE_POOL: "default"},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    name = f"{APP}-{number}"
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": APP}}
    return {"metadata": metadata, "spec": spec}


def first_plan(stack: Stack) -> float:
    """$/h of the first plan that bought anything."""
    for line in stack.log_file("scheduler").read_text().splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        if entry.get("message") == "computed plan" and entry["machines"]:
            return float(entry["cost_micro_usd_per_hour"]) / 1e6
    raise AssertionError("nothing was planned")


async def nominations(playground: Playground) -> dict[str, int]:
    """What became of them, by the scheduler's own status."""
    async with aiohttp.ClientSession() as session:
        url = f"{playground.environment.services['scheduler']}/status"
        async with session.get(url) as answer:
            realised: dict[str, int] = (await answer.json())["handover"]["realised"]
            return realised


async def play(playground: Playground, count: int) -> Outcome:
    """Create the pods, wait until all run, count what was bought."""
    kube = playground.kube
    cpu = {"key": keys.AWS_PREFIX + "instance-cpu", "operator": "Lt", "values": [MOST_CPU]}
    await workload.apply_pool(kube, playground.environment.cluster_name, 3600, V1)
    pool = workload.node_pool(3600)
    requirements = [*pool["spec"]["template"]["spec"]["requirements"], cpu]
    changed = {"spec": {"template": {"spec": {"requirements": requirements}}}}
    await kube.patch(NODE_POOLS, "default", changed)
    async with playground.one_plan(count, APP):
        await asyncio.gather(*(kube.create(PODS, document) for document in pods(count)))

    async def running() -> bool:
        listed = (await kube.list(PODS, NAMESPACE, label_selector=f"app={APP}")).items
        running = [raw for raw in listed if raw["status"].get("phase") == "Running"]
        return len(running) == count

    await until(running, "all pods run", seconds=RUN_SECONDS, every=1)
    prices = [machine.price_per_hour or 0.0 for machine in (await playground.look()).machines]
    told = await nominations(playground)
    return Outcome(first_plan(playground.stack), sum(prices), len(prices), told)


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    ("nominate", "count"),
    [("off", 400), ("on", 400), pytest.param("on", 1000, marks=NIGHTLY)],
)
async def test_what_runs_costs_hardly_more_than_what_was_planned(
    deployed: ControlPlane, tmp_path_factory: pytest.TempPathFactory, nominate: str, count: int
) -> None:
    take_workloads_away(deployed)
    create_daemon_sets(deployed)
    directory = tmp_path_factory.mktemp("stack")
    with real_stack(deployed, directory, NOMINATE=nominate) as stack:
        async with playground_on(stack) as playground:
            outcome = await play(playground, count)
    print(f"NOMINATE={nominate}: {outcome}, over plan {outcome.over_plan:.3f}")  # noqa: T201
    assert outcome.over_plan <= MOST_OVER_PLAN[nominate]
