"""A steady load: pods come one after the other, need a new machine each, and go a while after they run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from cli.demo import workload
from shared.domain import labels as keys
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.generations import V1
from shared.errors import NotFound
from shared.kube.resources import NODE_CLAIMS, NODE_POOLS, PODS
from tests.support.stories.playground import NAMESPACE, Playground, until

PERIOD_SECONDS = 2.0
"""From one pod to the next."""
LIFE_SECONDS = 10.0
"""How long a pod runs before it is deleted."""
LOOK_SECONDS = 0.1
INSTANCE_TYPE = "c6i.large"
OWN_LABEL = "example.com/pod"
"""Each pod selects a value of its own, so that each needs a new machine."""


@dataclass
class Load:
    """Pods by name, with the times of the event loop at which each was created and bound."""

    playground: Playground
    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    machines: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Every NodeClaim that was ever seen, with all instances that its status ever named."""
    instances: set[str] = field(default_factory=set)
    """Every instance of the cluster that was launched meanwhile."""
    earlier: frozenset[str] = frozenset()
    """Instances of a load before this one."""

    def pending(self) -> list[float]:
        """Seconds that each pod was pending, in the order of their creation."""
        return [self.bound[name] - at for name, at in self.created.items()]

    async def run(self, name: str, over: asyncio.Event) -> None:
        """Create pods ``name-0`` and so on until ``over``. Then wait until each is bound, delete all, and wait until
        their machines are gone.
        """
        self.earlier = frozenset(await self._launched())
        async with asyncio.TaskGroup() as group:
            watching = [
                group.create_task(one) for one in (self._watch_pods(), self._watch_launches())
            ]
            while not over.is_set():
                await self._create(f"{name}-{len(self.created)}")
                await _either(over, PERIOD_SECONDS)
            await until(lambda: self.bound.keys() == self.created.keys(), "every pod is bound")
            for one in self.created.keys() - self.deleted:
                await self._delete(one)
            await until(self._nothing_is_left, "all machines and instances are gone")
            for task in watching:
                task.cancel()

    async def _launched(self) -> set[str]:
        return {one.instance_id for one in await self.playground.emulator.instances()}

    async def _nothing_is_left(self) -> bool:
        now = await self.playground.look()
        return not (now.machines or now.nodes or now.live_instances)

    async def _create(self, name: str) -> None:
        await self.playground.kube.create(PODS, pod(name), NAMESPACE)
        self.created[name] = _now()

    async def _watch_pods(self) -> None:
        """Apart from the launches: while the emulator is busy with a catalogue, a bound pod would count as waiting."""
        while True:
            listed = await self.playground.kube.list(PODS, NAMESPACE)
            for raw in listed.items:
                if raw["spec"].get("nodeName"):
                    self.bound.setdefault(raw["metadata"]["name"], _now())
            ending = [one for one, at in self.bound.items() if _now() - at > LIFE_SECONDS]
            for one in {*ending} - self.deleted:
                await self._delete(one)
            await asyncio.sleep(LOOK_SECONDS)

    async def _watch_launches(self) -> None:
        while True:
            claims = (await self.playground.kube.list(NODE_CLAIMS)).items
            for raw in claims:
                provider_id = (raw.get("status") or {}).get("providerID")
                found = {provider_instance_id(provider_id)} if provider_id else set()
                self.machines[raw["metadata"]["name"]] |= found
            self.instances |= await self._launched() - self.earlier
            await asyncio.sleep(LOOK_SECONDS)

    async def _delete(self, name: str) -> None:
        self.deleted.add(name)
        try:
            await self.playground.kube.delete(PODS, name, NAMESPACE)
        except NotFound:
            return


def pod(name: str) -> dict[str, Any]:
    """A pod that needs a machine of its own, and ends at once when it is deleted."""
    resources = {"requests": {"cpu": "1", "memory": "256Mi"}}
    return {
        "metadata": {"name": name, "labels": {"app": "load"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {OWN_LABEL: name},
            "containers": [{"name": "app", "image": "pause", "resources": resources}],
        },
    }


async def pool_of_one_type(playground: Playground) -> None:
    """The pool ``default``: machines that hold one pod of the load each, and go when they are empty."""
    await workload.apply_pool(playground.kube, playground.environment.cluster_name, 1, V1)
    requirements = [
        {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]},
        {"key": keys.INSTANCE_TYPE, "operator": "In", "values": [INSTANCE_TYPE]},
        {"key": OWN_LABEL, "operator": "Exists"},
    ]
    disruption = {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    change = {
        "spec": {"disruption": disruption, "template": {"spec": {"requirements": requirements}}}
    }
    await playground.kube.patch(NODE_POOLS, "default", change)

    async def ready() -> bool:
        return (await playground.condition(NODE_POOLS, "default", "Ready")).get("status") == "True"

    await until(ready, "the pool is ready")


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _either(over: asyncio.Event, seconds: float) -> None:
    """Return when ``over`` is set or the time has passed."""
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return
