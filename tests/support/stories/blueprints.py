"""Blueprints on a running stack: files that a person applies, and what then comes of them.

The files are in ``tests/e2e/blueprints/manifests``; each is applied and deleted whole, as a person would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from shared.domain import labels as keys
from shared.kube.resources import EVENTS, NODE_CLAIMS, NODES, PODS
from tests.support.stories.playground import NAMESPACE, Playground, ShellKubectl, is_leaving, until

Json = dict[str, Any]
MANIFESTS = Path(__file__).parents[2] / "e2e" / "blueprints" / "manifests"
PURPOSE = "purpose"
"""The label by which pods of a blueprint select its pool."""


class Blueprint:
    """The objects of one blueprint, and queries about them."""

    def __init__(self, ground: Playground, kubectl: ShellKubectl) -> None:
        self.ground, self.kubectl = ground, kubectl
        self._applied: list[str] = []

    async def apply(self, *names: str) -> None:
        """``kubectl apply -f`` of files, by their names."""
        for name in names:
            self._applied.append(name)
            await self.kubectl("apply", "-f", str(MANIFESTS / f"{name}.yaml"))

    async def delete(self) -> None:
        """``kubectl delete -f`` of all that was applied, the last file first; claims stay behind pods, so they too."""
        for name in reversed(self._applied):
            file = str(MANIFESTS / f"{name}.yaml")
            await self.kubectl("delete", "-f", file, "--ignore-not-found", "--wait=false")
        await self.kubectl("delete", "pvc", "--all", "--wait=false")

    async def scale(self, what: str, replicas: int) -> None:
        await self.kubectl("scale", what, f"--replicas={replicas}")

    async def patch(self, what: str, spec: Json) -> None:
        """``kubectl patch --type=merge`` of a spec."""
        await self.kubectl("patch", what, "--type=merge", "-p", json.dumps({"spec": spec}))

    async def pods(self, app: str, phase: str = "Running") -> list[Json]:
        """Pods in one phase that are not terminating."""
        listed = await self.ground.kube.list(PODS, NAMESPACE, label_selector=f"app={app}")
        here = [raw for raw in listed.items if not is_leaving(raw)]
        return [raw for raw in here if (raw.get("status") or {}).get("phase") == phase]

    async def nodes(self, selector: str = keys.NODE_POOL) -> list[Json]:
        """Nodes of pools, including terminating ones."""
        return (await self.ground.kube.list(NODES, label_selector=selector)).items

    async def claims(self) -> list[Json]:
        return (await self.ground.kube.list(NODE_CLAIMS)).items

    async def running(self, app: str, count: int) -> list[Json]:
        """Wait until this many pods run, and return them."""

        async def look() -> list[Json]:
            found = await self.pods(app)
            return found if len(found) == count else []

        found: list[Json] = await until(look, f"{count} pods of {app} run")
        return found

    async def settled(
        self, selector: str, fits: Callable[[list[Json]], bool], what: str
    ) -> list[Json]:
        """Wait until the nodes match and none is joining or terminating, and return them."""
        last: list[Json] = []

        async def look() -> list[Json]:
            nonlocal last
            last = await self.nodes(selector)
            calm = last and not any(map(is_leaving, last))
            return last if calm and fits(last) else []

        found: list[Json] = await until(look, what, show=lambda: [described(one) for one in last])
        return found

    async def told(self, reason: str, kind: str) -> list[str]:
        """The messages of events of this reason about objects of this kind."""
        return [
            str(event["message"])
            for event in (await self.ground.kube.list(EVENTS)).items
            if (event["reason"], event["involvedObject"]["kind"]) == (reason, kind)
        ]

    async def no_nodes(self, selector: str = keys.NODE_POOL) -> None:
        async def look() -> bool:
            return not await self.nodes(selector)

        await until(look, f"no node of {selector}")


def described(node: Json) -> tuple[str, ...]:
    """The differing properties of nodes, for the message of a failed test."""
    return (name_of(node), instance_type(node), label(node, keys.ZONE), str(is_leaving(node)))


def name_of(raw: Json) -> str:
    return str(raw["metadata"]["name"])


def label(raw: Json, key: str) -> str:
    return str((raw["metadata"].get("labels") or {}).get(key, ""))


def instance_type(node: Json) -> str:
    return label(node, keys.INSTANCE_TYPE)


def zones(nodes: Iterable[Json]) -> list[str]:
    return [label(node, keys.ZONE) for node in nodes]


def system(node: Json) -> tuple[str, str]:
    """Operating system and kubelet version, as ``kubectl get nodes -o wide`` shows them."""
    info = node["status"]["nodeInfo"]
    return info["osImage"], info["kubeletVersion"]


def hosts(pods: Iterable[Json]) -> set[str]:
    """The names of the nodes on which the pods run."""
    return {pod["spec"]["nodeName"] for pod in pods}
