"""A scenario of ``dovetail demo`` on a real API server whose objects the test writes itself: no service runs."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.cloud.emulator import Emulator
from cli.demo.display import Display
from cli.demo.scenarios import Scenario
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import NodeView, Observer
from cli.demo.stage import Stage
from cli.demo.timeline import Timeline
from cli.demo.workload import deployment
from cli.stack.environment import Environment
from local.cluster.storage.store import Store
from shared.domain import labels
from tests.services.conftest import CLASS_REF, CLUSTER, store_with_our_kinds
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig

NODE_CLAIMS: dict[str, Any] = {"plural": "nodeclaims", "group": labels.NODE_POOL.partition("/")[0]}


@dataclass
class DemoWorld:
    """The stage of a scenario, and short ways to the store of its API server."""

    store: Store
    stage: Stage
    clock: FakeClock
    shown: io.StringIO

    def node(self, name: str, *, price: float, zone: str = "us-west-2a") -> NodeView:
        """A ready node with its initialized NodeClaim. ``price`` is in USD per hour."""
        provider_id = f"aws:///{zone}/i-{name}"
        self.claim(name, provider_id, price)
        values = {
            labels.NODE_POOL: "default", labels.INSTANCE_TYPE: "m5.large", labels.ZONE: zone,
            labels.CAPACITY_TYPE: self.stage.scenario.capacity_type, labels.HOSTNAME: name,
        }  # fmt: skip
        self.store.create(
            "nodes",
            {
                "metadata": {"name": name, "labels": values},
                "spec": {"providerID": provider_id},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
        )
        return NodeView(
            name, provider_id, "m5.large", zone, self.stage.scenario.capacity_type, price, 0,
            ready=True, cordoned=False, leaving=False,
        )  # fmt: skip

    def claim(self, name: str, provider_id: str, price: float) -> None:
        """An initialized NodeClaim."""
        annotations = {labels.PRICE_ANNOTATION: str(round(price * 1_000_000))}
        requirement = {"key": labels.ZONE, "operator": "Exists"}
        spec = {"requirements": [requirement], "nodeClassRef": CLASS_REF}
        claim = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        self.store.create(obj=claim, **NODE_CLAIMS)
        self.reached(name, "Launched", "Registered", "Initialized", provider_id=provider_id)

    def reached(self, name: str, *conditions: str, provider_id: str) -> None:
        """Set the true conditions of a NodeClaim."""
        now = "2026-01-01T00:00:00Z"
        found = [
            {"type": one, "status": "True", "reason": one, "message": "", "lastTransitionTime": now}
            for one in conditions
        ]
        status = {"status": {"providerID": provider_id, "conditions": found}}
        self.store.patch(name=name, body=status, subresource="status", **NODE_CLAIMS)

    def remove(self, *names: str) -> None:
        """Nodes and their NodeClaims, as when Dovetail has ended them."""
        for name in names:
            self.store.delete("nodes", name)
            self.store.delete(name=name, **NODE_CLAIMS)

    def pods(self, count: int, node: str, prefix: str = "pod") -> None:
        """Pods of the workload that run on the node."""
        for number in range(count):
            name = f"{prefix}-{number}"
            self.store.create("pods", _pod(name, node), namespace="default")
            running = {"status": {"phase": "Running"}}
            self.store.patch("pods", name, running, namespace="default", subresource="status")

    def workload(self) -> None:
        """The Deployment of the scenario, which no controller serves."""
        manifest = deployment(self.stage.scenario)
        self.store.create("deployments", manifest, group="apps", namespace="default")

    def failed_checks(self) -> dict[str, str]:
        """Name -> detail."""
        return {one.name: one.detail for one in self.stage.checks if not one.ok}


def _pod(name: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"app": "inflate"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app"}]},
    }


@asynccontextmanager
async def demo_world(scenario: Scenario, directory: Path, aws_url: str) -> AsyncIterator[DemoWorld]:
    """An empty cluster with our kinds. The time of the scenario is in the test's hand."""
    store, clock, shown = store_with_our_kinds(), FakeClock(), io.StringIO()
    with embedded_api_server(store=store) as url:
        path = write_kubeconfig(directory / "kubeconfig", url)
        environment = Environment(str(path), "redis://127.0.0.1:9/0", aws_url, CLUSTER, {})
        async with stage_of(scenario, environment, clock, shown) as stage:
            yield DemoWorld(store, stage, clock, shown)


@asynccontextmanager
async def stage_of(
    scenario: Scenario, environment: Environment, clock: FakeClock, shown: io.StringIO
) -> AsyncIterator[Stage]:
    """A stage with clients of this environment, in which nobody has to answer."""
    kube = await connect(Path(environment.kubeconfig))
    emulator = Emulator(environment.aws_endpoint_url, environment.cluster_name)
    display = Display(Console(file=shown, width=200))
    try:
        yield Stage(
            scenario, DemoSettings(), environment, kube, emulator, Observer(kube, emulator),
            Timeline(clock), display,
        )  # fmt: skip
    finally:
        await kube.close()
