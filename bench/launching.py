"""Launching through the whole local stack, from pods to initialised nodes: seconds, EC2 calls and memory.

Every pod needs a machine of its own (anti-affinity by hostname), so N pods need N machines. Each size runs on its own
stack of Redis, AWS emulator, API server, controllers, kubelets and Dovetail's five services, with the settings of
`dovetail up`; all of them share this machine's cores. Run `python -m bench.launching`; `--sizes 100` runs less.

    --throttle 43    CreateFleet is refused for so many seconds from the first call on
    --empty 95       so many percent of the capacity pools (type, zone, capacity type) have no capacity

What may go wrong: machines are missing after PATIENCE_SECONDS; the row then shows how many, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from bench.report import Row, save, show
from bench.stacks.local_stack import Bench, running
from cli.demo.workload import DEPLOYMENTS, apply, apply_pool
from local.aws.capacity.stated import Statement
from shared.concurrency.clock import SystemClock
from shared.concurrency.tasks import TaskGroup
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED
from shared.domain.pools.generations import GENERATIONS, V1, Generation
from shared.errors import DovetailError
from shared.kube.client import Kube, Object
from shared.kube.resources import (
    EC2_NODE_CLASSES,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    PODS,
    Resource,
)
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore

SIZES = (100, 500, 1000)
BAR_SECONDS, BAR_MEMORY_MIB = 300.0, 200
BAR_AFTER_THROTTLING_SECONDS = 60.0
BAR_CALLS_PER_MINUTE = 3
PATIENCE_SECONDS = 600.0
MINUTE_SECONDS = 60.0
FAMILY = keys.AWS_PREFIX + "instance-family"
FAMILIES = (
    "m5",
    "c5",
    "r5",
    "m5a",
    "c5a",
    "r5a",
    "m5d",
    "c5d",
    "r5d",
    "m6i",
    "c6i",
    "r6i",
    "m6a",
    "c6a",
)
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
GROUPS = tuple((family, zone) for family in FAMILIES for zone in ZONES)[:40]
PINNED_PODS = 2000
SEED = 7
STEPS = (LAUNCHED, REGISTERED, INITIALIZED)
RUNNING = "Running"
CHANGES = ("ADDED", "MODIFIED")
THROTTLED = {
    "action": "CreateFleet",
    "code": "RequestLimitExceeded",
    "status": 503,
    "message": "Request limit exceeded.",
}
Times = dict[str, dict[str, float]]
"""Step -> name -> seconds since the epoch at which it was first seen."""


def apart(pods: int) -> Object:
    """A Deployment of pods that need a machine each; the cluster's fixed node takes none of them."""
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": keys.HOSTNAME}
    ours = {"matchExpressions": [{"key": keys.CAPACITY_TYPE, "operator": "Exists"}]}
    rules = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ours]}
        },
    }
    return deployment("apart", pods, {"affinity": rules})


def pinned(pods: int, groups: Sequence[tuple[str, str]]) -> list[Object]:
    """A Deployment of equal size for each (instance family, zone), so that no two share a CreateFleet call."""
    each = pods // len(groups)
    selectors = [{FAMILY: family, keys.ZONE: zone} for family, zone in groups]
    return [
        deployment("-".join(group), each, {"nodeSelector": selector})
        for group, selector in zip(groups, selectors, strict=True)
    ]


def deployment(name: str, pods: int, placement: Object) -> Object:
    """A Deployment of pods with half a core and these placement fields."""
    labels = {"app": name}
    container = {"name": "pause", "image": "pause", "resources": {"requests": {"cpu": "500m"}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **placement}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@dataclass
class Observed:
    """When each machine reached each step and each pod ran, as watches of the API server show."""

    times: Times = field(default_factory=lambda: defaultdict(dict))

    async def follow(self, kube: Kube, resource: Resource) -> None:
        """Watches one kind until cancelled."""
        namespace = "default" if resource.namespaced else None
        while True:
            with contextlib.suppress(DovetailError):
                listed = await kube.list(resource, namespace)
                for raw in listed.items:
                    self.note(raw)
                version = listed.resource_version
                async with aclosing(kube.watch(resource, version)) as events:
                    async for event in events:
                        found = event.object["metadata"].get("namespace")
                        if event.type in CHANGES and found == namespace:
                            self.note(event.object)

    def note(self, raw: Object) -> None:
        """Records the steps that an object has reached."""
        name, now, status = raw["metadata"]["name"], time.time(), raw.get("status") or {}
        conditions = status.get("conditions") or ()
        true = {
            one["type"].removeprefix("Machine") for one in conditions if one["status"] == "True"
        }
        reached = {status["phase"]} & {RUNNING} if "phase" in status else true & {*STEPS}
        for step in reached:
            self.times[step].setdefault(name, now)

    def count(self, step: str) -> int:
        """How many objects have reached the step."""
        return len(self.times[step])

    def seconds(self, step: str, since: float) -> float | None:
        """Seconds from ``since`` until the last object so far reached the step; None without any."""
        return round(max(self.times[step].values()) - since, 1) if self.times[step] else None


MACHINE_KINDS = {resource.kind: resource for resource in (MACHINES, NODE_CLAIMS)}


@dataclass(frozen=True)
class Play:
    """One measurement: the Deployments, and how many machines or pods must reach which step."""

    deployments: Sequence[Object]
    api: Generation
    ends: dict[str, int]
    """Step -> how many."""

    @property
    def pods(self) -> int:
        """The number of pods of all Deployments."""
        return sum(int(one["spec"]["replicas"]) for one in self.deployments)


async def prepared(bench: Bench, api: Generation) -> None:
    """Applies pool and class, for spot and on-demand, and waits until the class is ready."""
    market = {
        "key": "karpenter.sh/capacity-type",
        "operator": "In",
        "values": ["spot", "on-demand"],
    }
    linux = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    rules = {"requirements": [market, linux]}
    changes = {"template": {"spec": rules}} if api.pool_kind == NODE_POOLS.kind else rules
    await apply_pool(bench.kube, bench.cluster_name, 600, api.name, changes=changes)
    async with asyncio.timeout(MINUTE_SECONDS):
        while api.detailed_status and not await _class_is_ready(bench):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _class_is_ready(bench: Bench) -> bool:
    raw = await bench.kube.get(EC2_NODE_CLASSES, "default")
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def played(bench: Bench, play: Play, started: float) -> Observed:
    """Creates the Deployments and watches until all steps are reached, at most PATIENCE_SECONDS."""
    observed = Observed()
    kinds = (MACHINE_KINDS[play.api.machine_kind], PODS)
    async with TaskGroup() as group:
        watching = [group.create_task(observed.follow(bench.kube, kind)) for kind in kinds]
        for deployment in play.deployments:
            await apply(bench.kube, DEPLOYMENTS, deployment)
        await _shown(observed, play.ends, started + PATIENCE_SECONDS)
        for task in watching:
            task.cancel()
    return observed


async def _shown(observed: Observed, ends: dict[str, int], until: float) -> None:
    """Shows progress bars on stderr until all steps are reached or it is ``until``."""
    console = Console(stderr=True)
    columns = ("{task.description:<12}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        tasks = {step: bars.add_task(step, total=wanted) for step, wanted in ends.items()}
        while any(observed.count(step) < n for step, n in ends.items()) and time.time() < until:
            for step, task in tasks.items():
                bars.update(task, completed=observed.count(step))
            await asyncio.sleep(0.2)


async def fleets(bench: Bench) -> list[dict[str, Any]]:
    """Every CreateFleet call so far except dry runs, oldest first."""
    calls = (await bench.emulator("calls?action=CreateFleet"))["calls"]
    return [call for call in calls if str(call["parameters"].get("DryRun")).lower() != "true"]


async def many(size: int, api: Generation) -> tuple[Row, list[Row]]:
    """Launches ``size`` machines for as many pods: (row, rows of the processes)."""
    async with running(log_level="warning") as bench:
        await prepared(bench, api)
        ends = dict.fromkeys((*STEPS, RUNNING), size)
        play = Play([apart(size)], api, ends)
        started = time.time()
        seen = await played(bench, play, started)
        processes = bench.processes()
        row: Row = {
            "machines": size,
            **{f"{step.lower()} s": seen.seconds(step, started) for step in (*STEPS, RUNNING)},
            "CreateFleet calls": len(await fleets(bench)),
            "missing": size - min(seen.count(step) for step in ends),
            "too many": seen.count(LAUNCHED) - size,
            "launcher MiB": next(p["peak MiB"] for p in processes if p["process"] == "launcher"),
        }
        return row, [{"machines": size, **one} for one in processes]


async def throttled(seconds: float, api: Generation) -> Row:
    """2,000 pods that need at least 40 calls, while EC2 refuses every call for so many seconds from the first one."""
    async with running(log_level="warning") as bench:
        await prepared(bench, api)
        await bench.emulator("faults", {**THROTTLED, "seconds": PATIENCE_SECONDS})
        play = Play(pinned(PINNED_PODS, GROUPS), api, {RUNNING: PINNED_PODS})
        seen, (begins, ends) = await asyncio.gather(
            played(bench, play, time.time()), lifted(bench, seconds)
        )
        calls = await fleets(bench)
        inside = [call["at"] for call in calls if begins <= call["at"] < ends]
        return {
            "pods": PINNED_PODS,
            "machines": seen.count(LAUNCHED),
            "window s": round(ends - begins, 1),
            "calls inside": len(inside),
            "most in one second": most_within(inside, 1.0),
            "calls in all": len(calls),
            "most a minute with one token": most_a_minute(calls),
            "all launched after it s": seen.seconds(LAUNCHED, ends),
            "all running after it s": seen.seconds(RUNNING, ends),
            "missing pods": PINNED_PODS - seen.count(RUNNING),
        }


async def lifted(bench: Bench, seconds: float) -> tuple[float, float]:
    """Ends the throttling so many seconds after the first refused call: (begin, end). Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (calls := await fleets(bench)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    begins = float(calls[0]["at"])
    await asyncio.sleep(max(0.0, begins + seconds - time.time()))
    await bench.emulator("clear", {})
    return begins, time.time()


async def empty(percent: float, api: Generation) -> Row:
    """So many percent of the capacity pools are empty; pods whose family and zone have a pool left must run."""
    async with running(log_level="warning") as bench:
        await prepared(bench, api)
        everything = {"instanceType": "*", "zone": "*", "capacityType": "*"}
        stated = {**everything, "available": 0, "percent": percent, "seed": SEED}
        await bench.emulator("capacity", stated)
        open_groups = await with_capacity(bench, percent)
        wanted = PINNED_PODS // len(GROUPS) * len(open_groups)
        play = Play(pinned(PINNED_PODS, GROUPS), api, {RUNNING: wanted})
        started = time.time()
        seen = await played(bench, play, started)
        calls = await fleets(bench)
        return {
            "pods": PINNED_PODS,
            "empty %": percent,
            "groups with a pool": len(open_groups),
            "of": len(GROUPS),
            "machines": seen.count(LAUNCHED),
            "calls": len(calls),
            "most a minute with one token": most_a_minute(calls),
            "all running s": seen.seconds(RUNNING, started),
            "missing pods": max(0, wanted - seen.count(RUNNING)),
        }


async def with_capacity(bench: Bench, percent: float) -> list[tuple[str, str]]:
    """The groups of (family, zone) with a capacity pool that is not empty, by the emulator's own draw."""
    environment = bench.stack.running().environment
    bus = Bus(
        environment["REDIS_URL"], bench.cluster_name, clock=SystemClock(), random=random.Random(0)
    )
    try:
        catalogue = await CatalogueStore(bus.redis, bus.prefix).get()
    finally:
        await bus.close()
    drawn = Statement("*", "*", "*", 0, percent=percent, seed=SEED)
    found = {
        (kind.labels[FAMILY][0], offering.zone)
        for kind in (catalogue.types if catalogue else ())
        for offering in kind.offerings
        if not drawn.matches((kind.name, offering.zone, offering.capacity_type))
    }
    return [group for group in GROUPS if group in found]


def most_within(times: Sequence[float], seconds: float) -> int:
    """The largest number of these times in any span of this length."""
    ordered = sorted(times)
    return max(
        (sum(first <= at < first + seconds for at in ordered) for first in ordered), default=0
    )


def most_a_minute(calls: Sequence[dict[str, Any]]) -> int:
    """The most calls in a minute with one client token, which identifies an attempt for certain machines."""
    by_token: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        by_token[call["parameters"]["ClientToken"]].append(call["at"])
    return max((most_within(times, MINUTE_SECONDS) for times in by_token.values()), default=0)


def main() -> None:
    """Runs the chosen measurements and prints them. Exits with status 1 when machines or pods are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--throttle", type=float, metavar="SECONDS")
    parser.add_argument("--empty", type=float, metavar="PERCENT")
    parser.add_argument("--generation", choices=sorted(GENERATIONS), default=V1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    api = GENERATIONS[chosen.generation]
    tables: dict[str, list[Row]] = {}
    if chosen.throttle is not None:
        tables["throttled"] = [asyncio.run(throttled(chosen.throttle, api))]
    if chosen.empty is not None:
        tables["without capacity"] = [asyncio.run(empty(chosen.empty, api))]
    if not tables:
        measured = [asyncio.run(many(size, api)) for size in chosen.sizes]
        tables["launching"] = [row for row, _ in measured]
        tables["processes"] = [one for _, processes in measured for one in processes]
    for title, rows in tables.items():
        show(title, rows)
    save(chosen.json, tables)
    print(
        f"targets: 1,000 machines in {BAR_SECONDS:.0f} s and the launcher below {BAR_MEMORY_MIB} MiB; "
        f"one call a second while throttled, all launched {BAR_AFTER_THROTTLING_SECONDS:.0f} s "
        f"later; {BAR_CALLS_PER_MINUTE} calls a minute for a machine"
    )
    rows = (
        tables.get("launching", [])
        + tables.get("throttled", [])
        + tables.get("without capacity", [])
    )
    sys.exit(any(row.get("missing") or row.get("missing pods") for row in rows))


if __name__ == "__main__":
    main()
