"""Watches interrupted nodes until their pods have left, or their two minutes are over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from cli.drill.picture import Json, Picture, Target, report_of
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.resources import EVENTS, MACHINES, NODE_CLAIMS, PODS

NOTICE_SECONDS = 120.0
LOOK_SECONDS = 0.5
SETTLED_SECONDS = 2.0
HELD = "FailedDraining"


async def watch(kube: Kube, picture: Picture, targets: Sequence[Target]) -> Json:
    """The report. Call it right after the warning was sent."""
    clock = SystemClock()
    began = clock.monotonic()
    emptied: dict[str, float] = {}
    placed: float | None = None
    left = {target.node.name: {pod.uid for pod in target.pods} for target in targets}
    waited_before = waiting(picture.objects[PODS])
    while placed is None and clock.monotonic() - began < NOTICE_SECONDS:
        await asyncio.sleep(LOOK_SECONDS)
        pods = (await kube.list(PODS)).items
        seconds = clock.monotonic() - began
        _cross_out(left, pods, emptied, seconds)
        # The controllers make new pods as the old ones go: a moment later all of them are there.
        settled = len(emptied) == len(left) and seconds > max(emptied.values()) + SETTLED_SECONDS
        if settled and waiting(pods) <= waited_before:
            placed = seconds
    names = {pod.uid: pod.key for target in targets for pod in target.pods}
    stayed = sorted(names[uid] for uids in left.values() for uid in uids)
    return report_of(
        targets, emptied, simulated=False, moved=len(names) - len(stayed), stayed=stayed,
        blocked=await _held(kube, set(left), picture.budgets(targets)), narrow=[], homeless=[],
        placedAfterSeconds=placed, machines=await _new_machines(kube, picture, targets),
    )  # fmt: skip


def _cross_out(
    left: dict[str, set[str]], pods: Sequence[Json], emptied: dict[str, float], seconds: float
) -> None:
    there = {pod["metadata"]["uid"] for pod in pods}
    for name, uids in left.items():
        uids &= there
        if not uids:
            emptied.setdefault(name, seconds)


def waiting(pods: Sequence[Json]) -> int:
    """How many have no node."""
    return sum(
        not (pod.get("spec") or {}).get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        for pod in pods
    )


async def _held(
    kube: Kube, nodes: set[str], budgets: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    """What the terminator said about pods that held their node. ``budgets``: by pod."""
    found: dict[str, dict[str, str]] = {}
    for event in (await kube.list(EVENTS)).items:
        involved = event.get("involvedObject") or {}
        if event.get("reason") != HELD or involved.get("name") not in nodes:
            continue
        one = held(str(event.get("message") or ""), budgets)
        found[one["pod"]] = one
    return list(found.values())


def held(message: str, budgets: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Pod and reason of one event, without the API call in it, and with the names of the pod's budgets."""
    said, _, why = message.partition(" stays: ")
    pod = said.rpartition(" ")[2]
    why = why.removeprefix(f"create pods/eviction {pod}: ").removesuffix(" (429)")
    names = ", ".join(budgets.get(pod, ())) if "disruption budget" in why else ""
    return {"pod": pod, "why": f"{why} ({names})" if names else why}


async def _new_machines(kube: Kube, picture: Picture, targets: Sequence[Target]) -> list[str]:
    """Bought since the picture, for pods that had to move. What others needed meanwhile is not the drill's."""
    nodes = new_homes((await kube.list(PODS)).items, picture.objects[PODS], targets)
    found = []
    for resource in (MACHINES, NODE_CLAIMS):
        if not picture.objects[resource] and not await kube.serves(resource):
            continue
        before = {raw["metadata"]["uid"] for raw in picture.objects[resource]}
        found += [
            raw["metadata"]["name"]
            for raw in (await kube.list(resource)).items
            if raw["metadata"]["uid"] not in before
            and (raw.get("status") or {}).get("nodeName") in nodes
        ]
    return sorted(found)


def new_homes(
    pods: Sequence[Json], before: Sequence[Json], targets: Sequence[Target]
) -> frozenset[str]:
    """Nodes of the pods that controllers made in the place of those that had to move. ``before``: all pods then."""
    known = {raw["metadata"]["uid"] for raw in before}
    owners = {pod.owner.uid for target in targets for pod in target.pods if pod.owner}
    fresh = (raw for raw in pods if raw["metadata"]["uid"] not in known)
    return frozenset(
        str(node)
        for raw in fresh
        if (node := (raw.get("spec") or {}).get("nodeName"))
        and owners & {str(one.get("uid")) for one in raw["metadata"].get("ownerReferences") or ()}
    )
