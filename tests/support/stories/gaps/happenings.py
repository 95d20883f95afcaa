"""What happens to a cluster while nobody of Dovetail looks: drawn by a seed, done by hand, straight at the API server.

"Vanish": a person deleted an object and its finalizers, so that only a new list shows that it is gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from cli.demo import workload
from shared.domain import labels as keys
from shared.errors import NotFound
from shared.kube.resources import NODE_CLAIMS, NODES, PODS, Resource
from tests.support.stories.playground import NAMESPACE, Playground, is_leaving

MOST_REPLICAS = 12
HAPPENINGS = 8
"""Number of changes in one gap."""


@dataclass
class Person:
    """Changes the cluster directly at the API server, as a user with kubectl does."""

    ground: Playground
    random: Random
    replicas: int
    done: list[str]
    """The changes in their order, for the message of a failed test."""

    async def scale(self, least: int = 0) -> None:
        self.replicas = self.random.randint(least, MOST_REPLICAS)
        await workload.scale(self.ground.kube, self.replicas)
        self.done.append(f"scaled to {self.replicas}")

    async def delete_pod(self) -> None:
        await self._delete(PODS, NAMESPACE, "app=inflate")

    async def delete_node(self) -> None:
        await self._delete(NODES, None, keys.NODE_POOL)

    async def delete_claim(self) -> None:
        await self._delete(NODE_CLAIMS, None, keys.NODE_POOL)

    async def vanish_node(self) -> None:
        """With its claim: a node alone would come back with the next start of its kubelet."""
        if self._a_claim_vanished():
            await self.delete_node()
            return
        node = await self._delete(NODES, None, keys.NODE_POOL, vanish=True)
        for claim in (await self.ground.kube.list(NODE_CLAIMS)).items:
            if (claim.get("status") or {}).get("nodeName") == node:
                await self._remove(NODE_CLAIMS, claim["metadata"]["name"], None, vanish=True)

    async def vanish_claim(self) -> None:
        gently = self._a_claim_vanished()
        await self._delete(NODE_CLAIMS, None, keys.NODE_POOL, vanish=not gently)

    def _a_claim_vanished(self) -> bool:
        """Of three machines one: where more lose theirs at once, the launcher holds all deletions back (R7)."""
        return any("NodeClaim" in one and one.endswith("vanished") for one in self.done)

    async def _delete(
        self, resource: Resource, namespace: str | None, selector: str, *, vanish: bool = False
    ) -> str:
        found = (await self.ground.kube.list(resource, namespace, label_selector=selector)).items
        names = sorted(str(raw["metadata"]["name"]) for raw in found if not is_leaving(raw))
        if not names:
            return ""
        name = self.random.choice(names)
        await self._remove(resource, name, namespace, vanish=vanish)
        return name

    async def _remove(
        self, resource: Resource, name: str, namespace: str | None, *, vanish: bool
    ) -> None:
        self.done.append(f"{resource.kind} {name} {'vanished' if vanish else 'deleted'}")
        kube = self.ground.kube
        try:
            await kube.delete(resource, name, namespace)
            if vanish:
                await kube.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
        except NotFound:
            return


async def happen(ground: Playground, random: Random, seconds: float, replicas: int) -> Person:
    """A drawn sequence over so many seconds, each kind of happening once at least, and pods at its end: without any
    machine, instances that lost theirs by hand are left alone. Who did it, afterwards.
    """
    person = Person(ground, random, replicas, [])
    kinds: list[Callable[[], Awaitable[object]]] = [
        person.scale, person.delete_pod, person.delete_node, person.delete_claim,
        person.vanish_node, person.vanish_claim,
    ]  # fmt: skip
    chosen = kinds + random.choices(kinds, k=HAPPENINGS - len(kinds))
    random.shuffle(chosen)
    began = time.monotonic()
    times = sorted(random.uniform(0, seconds) for _ in chosen)
    for act, at in zip(chosen, times, strict=True):
        await asyncio.sleep(max(0.0, began + at - time.monotonic()))
        await act()
    await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
    await person.scale(least=1)
    return person
