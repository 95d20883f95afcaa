"""Watches interrupted nodes until all their pods have left, or until the two minutes are over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from cli.drill.cluster_state import ClusterState, Json, Target, report_of
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.resources import EVENTS, MACHINES, NODE_CLAIMS, PODS

NOTICE_SECONDS = 120.0
POLL_SECONDS = 0.5
PODS_RECREATED_SECONDS = 2.0
BLOCKED_REASON = "FailedDraining"


async def watch(kube: Kube, cluster: ClusterState, targets: Sequence[Target]) -> Json:
    """Watch the nodes and return the report. Call it directly after the notices were sent."""
    clock = SystemClock()
    began = clock.monotonic()
    emptied: dict[str, float] = {}
    placed: float | None = None
    left = {target.node.name: {pod.uid for pod in target.pods} for target in targets}
    waited_before = waiting(cluster.objects[PODS])
    while placed is None and clock.monotonic() - began < NOTICE_SECONDS:
        await asyncio.sleep(POLL_SECONDS)
        pods = (await kube.list(PODS)).items
        seconds = clock.monotonic() - began
        _record_left(left, pods, emptied, seconds)
        # Controllers create the new pods while the old ones are deleted: after this pause all of them exist.
        settled = (
            len(emptied) == len(left) and seconds > max(emptied.values()) + PODS_RECREATED_SECONDS
        )
        if settled and waiting(pods) <= waited_before:
            placed = seconds
    names = {pod.uid: pod.key for target in targets for pod in target.pods}
    stayed = sorted(names[uid] for uids in left.values() for uid in uids)
    return report_of(
        targets, emptied, simulated=False, moved=len(names) - len(stayed), stayed=stayed,
        blocked=await _blocked(kube, set(left), cluster.budgets(targets)), narrow=[], homeless=[],
        placedAfterSeconds=placed, machines=await _new_machines(kube, cluster, targets),
    )  # fmt: skip


def _record_left(
    left: dict[str, set[str]], pods: Sequence[Json], emptied: dict[str, float], seconds: float
) -> None:
    existing = {pod["metadata"]["uid"] for pod in pods}
    for name, uids in left.items():
        uids &= existing
        if not uids:
            emptied.setdefault(name, seconds)


def waiting(pods: Sequence[Json]) -> int:
    """Number of pods without a node, except terminating ones."""
    return sum(
        not (pod.get("spec") or {}).get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        for pod in pods
    )


async def _blocked(
    kube: Kube, nodes: set[str], budgets: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    """Pods whose eviction was refused, with the reason, from the terminator's events. ``budgets``: by pod."""
    found: dict[str, dict[str, str]] = {}
    for event in (await kube.list(EVENTS)).items:
        involved = event.get("involvedObject") or {}
        if event.get("reason") != BLOCKED_REASON or involved.get("name") not in nodes:
            continue
        one = blocked_pod(str(event.get("message") or ""), budgets)
        found[one["pod"]] = one
    return list(found.values())


def blocked_pod(message: str, budgets: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Pod and reason of one event. The API call is removed, and the names of the pod's budgets are added."""
    subject, _, why = message.partition(" stays: ")
    pod = subject.rpartition(" ")[2]
    why = why.removeprefix(f"create pods/eviction {pod}: ").removesuffix(" (429)")
    names = ", ".join(budgets.get(pod, ())) if "disruption budget" in why else ""
    return {"pod": pod, "why": f"{why} ({names})" if names else why}


async def _new_machines(kube: Kube, cluster: ClusterState, targets: Sequence[Target]) -> list[str]:
    """Machines that were created since the first read, for pods that had to move. Others do not count."""
    nodes = nodes_of_replacements((await kube.list(PODS)).items, cluster.objects[PODS], targets)
    found = []
    for resource in (MACHINES, NODE_CLAIMS):
        if not cluster.objects[resource] and not await kube.serves(resource):
            continue
        before = {raw["metadata"]["uid"] for raw in cluster.objects[resource]}
        found += [
            raw["metadata"]["name"]
            for raw in (await kube.list(resource)).items
            if raw["metadata"]["uid"] not in before
            and (raw.get("status") or {}).get("nodeName") in nodes
        ]
    return sorted(found)


def nodes_of_replacements(
    pods: Sequence[Json], before: Sequence[Json], targets: Sequence[Target]
) -> frozenset[str]:
    """Nodes of the pods that replaced those that had to move. ``before``: all pods at the start of the drill."""
    known = {raw["metadata"]["uid"] for raw in before}
    owners = {pod.owner.uid for target in targets for pod in target.pods if pod.owner}
    fresh = (raw for raw in pods if raw["metadata"]["uid"] not in known)
    return frozenset(
        str(node)
        for raw in fresh
        if (node := (raw.get("spec") or {}).get("nodeName"))
        and owners & {str(one.get("uid")) for one in raw["metadata"].get("ownerReferences") or ()}
    )
