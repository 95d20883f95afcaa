"""Pools, workloads and looks for tests that take machines away on a running stack.

A ``Pool`` works with kubectl as a person would. Each pool buys one instance family, so that tests of one stack do not
meet: what one has run out of does not matter to the others.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cli.demo import workload
from cli.demo.scenarios import SCENARIOS
from cli.demo.snapshot import Snapshot
from cli.operations.scheduler_status import ask
from shared.api.v1alpha5.machines import domain_condition
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED
from shared.domain.pools.generations import V1
from shared.errors import NotFound, Unavailable
from shared.kube.resources import EVENTS, MACHINES, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support.stories.playground import (
    NAMESPACE,
    POLL_SECONDS,
    Playground,
    ShellKubectl,
    is_leaving,
    until,
)

POOL_LABELS = {"Provisioner": keys.PROVISIONER_NAME, "NodePool": keys.NODE_POOL}
CONSOLIDATE = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
EVENT_SECONDS = 200.0
"""A service writes ten events a second: one that is no warning waits behind those about 400 pods of tests before."""
Json = dict[str, Any]


async def seen(
    ground: Playground,
    what: str,
    reached: Callable[[Snapshot], bool],
    every: float = POLL_SECONDS,
) -> Snapshot:
    """Wait until the cluster reaches the state, and return its snapshot."""
    last = Snapshot()

    async def look() -> Snapshot | None:
        nonlocal last
        last = await ground.look()
        return last if reached(last) else None

    found = await until(look, what, show=lambda: last, every=every)
    assert found is not None
    return found


def settled(count: int) -> Callable[[Snapshot], bool]:
    """Whether this many pods run, every machine is ready, and nothing is terminating."""

    def reached(now: Snapshot) -> bool:
        return (
            now.running == now.total == count
            and len(now.machines) == len(now.nodes) == len(now.live_instances)
            and all(INITIALIZED in m.reached and not m.leaving for m in now.machines)
        )

    return reached


def hourly(now: Snapshot) -> float:
    """The price of all nodes in USD per hour."""
    return sum(node.price_per_hour or 0.0 for node in now.nodes)


def family(name: str, *markets: str) -> list[Json]:
    """Requirements: machines of one instance family, on demand where nothing else is said."""
    return [
        {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [*markets] or [keys.ON_DEMAND]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [name]},
    ]


async def inflate(ground: Playground, kubectl: ShellKubectl, replicas: int, market: str) -> None:
    """The workshop's Deployment of one-core pods, on added nodes only."""
    document = workload.deployment(SCENARIOS["node-delete"])
    document["spec"]["template"]["spec"]["nodeSelector"] = {keys.CAPACITY_TYPE: market}
    async with ground.one_plan(replicas):
        await kubectl.apply(document)
        await scale(kubectl, replicas)
    await seen(ground, f"{replicas} pods run", settled(replicas))


async def scale(kubectl: ShellKubectl, replicas: int, name: str = "inflate") -> None:
    await kubectl("scale", "deployment", name, f"--replicas={replicas}")


async def consolidating_pool(ground: Playground, name: str) -> None:
    """A NodePool of one family that is consolidated at once."""
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    requirements = {"template": {"spec": {"requirements": family(name)}}}
    cluster = ground.environment.cluster_name
    await workload.apply_pool(ground.kube, cluster, 1, V1)
    change = {"spec": {"disruption": policy, **requirements}}
    await ground.kube.patch(NODE_POOLS, "default", change)


async def dovetail(ground: Playground, *words: str) -> str:
    """Run the command for this stack and return its output. The command must succeed."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "cli.main", *words, "--directory", str(ground.stack.directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def stays_because(ground: Playground, node: str) -> list[Json]:
    """What the scheduler says of it; nothing while it does not know the node.

    In a thread: the loop may have to wake the scheduler meanwhile.
    """
    url = ground.environment.services["scheduler"] + "/explain"
    try:
        told: list[Json] = (await asyncio.to_thread(ask, url, {"node": node}))["staysBecause"]
    except (NotFound, Unavailable):
        return []
    return told


@dataclass
class Pool:
    """One pool with one Deployment of its own, both named ``name``."""

    ground: Playground
    kubectl: ShellKubectl
    kind: str
    name: str

    @property
    def selector(self) -> str:
        return f"{POOL_LABELS[self.kind]}={self.name}"

    async def apply_class(self) -> None:
        """Create the node class that all pools of this kind share, under a lock."""
        cluster = self.ground.environment.cluster_name
        v1 = self.kind == "NodePool"
        await self.kubectl.apply(
            workload.node_class(cluster) if v1 else workload.node_template(cluster)
        )

    async def apply(
        self, requirements: list[Json], template: Json | None = None, **spec: Any
    ) -> None:
        """Create the pool. ``template``: of a NodePool, merged into its spec."""
        if self.kind == "NodePool":
            body = workload.node_pool(1)
            body["spec"]["template"]["spec"] |= {"requirements": requirements, **(template or {})}
        else:
            body = workload.provisioner(1)
            body["spec"]["requirements"] = requirements
        body["spec"] |= spec
        body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
        body["metadata"]["name"] = self.name
        await self.kubectl.apply(body)

    async def change(self, **spec: Any) -> None:
        """``kubectl patch`` of the pool's spec."""
        words = ("patch", self.kind.lower(), self.name, "--type=merge", "-p")
        await self.kubectl(*words, json.dumps({"spec": spec}))

    async def run(
        self, replicas: int, *, cpu: str = "1", annotations: Json | None = None, grace: int = 0
    ) -> None:
        """Create the Deployment, only on nodes of the pool, in one plan."""
        labels = {"app": self.name}
        pod = {
            "nodeSelector": {POOL_LABELS[self.kind]: self.name},
            "terminationGracePeriodSeconds": grace,
            "containers": [
                {"name": "app", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
            ],
        }
        template = {"metadata": {"labels": labels, "annotations": annotations or {}}, "spec": pod}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
        }
        async with self.ground.one_plan(replicas, self.name):
            await self.kubectl.apply(
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": self.name, "namespace": NAMESPACE},
                    "spec": spec,
                }
            )

    async def scale(self, replicas: int) -> None:
        """Scale the Deployment, so that all pods are in one plan."""
        async with self.ground.one_plan(replicas, self.name):
            await scale(self.kubectl, replicas, self.name)

    async def budget(self, most_unavailable: int) -> None:
        """Create a PodDisruptionBudget for the pods."""
        document = workload.budget(most_unavailable=most_unavailable)
        document["metadata"]["name"] = self.name
        document["spec"]["selector"] = {"matchLabels": {"app": self.name}}
        await self.kubectl.apply(document)

    async def pods(self) -> list[Json]:
        """Pods that are not terminating."""
        listed = await self.ground.kube.list(PODS, NAMESPACE, label_selector=f"app={self.name}")
        return [raw for raw in listed.items if not is_leaving(raw)]

    async def machines(self) -> list[Json]:
        resource = NODE_CLAIMS if self.kind == "NodePool" else MACHINES
        return (await self.ground.kube.list(resource, label_selector=self.selector)).items

    async def nodes(self) -> list[Json]:
        return (await self.ground.kube.list(NODES, label_selector=self.selector)).items

    async def serving(self, pods: int, nodes: int = 1, seconds: float = 120.0) -> list[Json]:
        """Wait until this many pods run on this many nodes and nothing changes; return the nodes."""

        async def look() -> list[Json]:
            found = await self.nodes()
            running = [pod for pod in await self.pods() if _runs(pod)]
            machines = await self.machines()
            calm = all(is_initialized(m) and not is_leaving(m) for m in machines)
            counts = (len(running), len(found), len(machines))
            return found if calm and counts == (pods, nodes, nodes) else []

        what = f"{pods} pods of {self.name} on {nodes} node(s)"
        return await until(look, what, seconds=seconds)

    async def gone(self) -> None:
        """Wait until all machines and nodes of the pool are gone."""

        async def look() -> bool:
            return not (await self.machines() or await self.nodes())

        await until(look, f"no machine of {self.name}")

    async def told(self, reason: str, about: str) -> str:
        """The message of the first event of this reason about the object."""

        async def look() -> str:
            for event in (await self.ground.kube.list(EVENTS)).items:
                named = event["involvedObject"]["name"]
                if (event["reason"], named) == (reason, about):
                    return str(event["message"])
            return ""

        what = f"event {reason} about {about}"
        return await until(look, what, seconds=EVENT_SECONDS)


def instance_type(node: Json) -> str:
    return str(node["metadata"]["labels"][keys.INSTANCE_TYPE])


def name_of(raw: Json) -> str:
    return str(raw["metadata"]["name"])


async def passes(ground: Playground, count: int) -> None:
    """Wait until the scheduler has run this many further disruption passes."""
    url = ground.environment.services["scheduler"] + "/metrics"
    series = "evaluation_duration_seconds_count{"

    async def so_far() -> float:
        text = await asyncio.to_thread(
            lambda: urllib.request.urlopen(url, timeout=30).read().decode()
        )
        lines = [x for x in text.splitlines() if series in x and '"emptiness"' in x]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    before = await so_far()

    async def enough() -> bool:
        return await so_far() >= before + count

    await until(enough, f"{count} passes")


def owner(node: Json) -> str:
    """The name of the node's machine."""
    return str(node["metadata"]["ownerReferences"][0]["name"])


def is_initialized(machine: Json) -> bool:
    return has_condition(machine, INITIALIZED)


def has_condition(machine: Json, name: str) -> bool:
    """The condition ``name`` by its domain name, for Machine and NodeClaim."""
    conditions = (machine.get("status") or {}).get("conditions") or []
    return any(domain_condition(c["type"]) == name and c["status"] == "True" for c in conditions)


def _runs(pod: Json) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")
