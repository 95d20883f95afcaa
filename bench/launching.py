"""From pods to initialised nodes through the whole local stack: how long, with how many calls, in how much memory.

Every pod needs a machine of its own (anti-affinity by hostname), so N pods are N machines. A stack of Redis, AWS
emulator, API server, controllers, kubelets and Dovetail's five services is started for each size with the settings of
`dovetail up`; all of them share this machine's cores. Run `python -m bench.launching`, `--sizes 100` for less.

    --throttle 43    CreateFleet is refused for so many seconds, from the first call on
    --empty 95       so many per cent of the spot and on-demand pools have no capacity

What may go wrong: the machines are not all there after PATIENCE_SECONDS; the row then says how many are, and the
program ends with status 1.
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
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.errors import DovetailError
from shared.kube.client import Kube, Object
from shared.kube.resources import EC2_NODE_CLASSES, MACHINES, NODE_CLAIMS, PODS, Resource
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
    """A Deployment each of whose pods needs a machine of its own; the cluster's fixed node takes none."""
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
    """A Deployment for each (instance family, zone), all of one size: no two of them share a call."""
    each = pods // len(groups)
    selectors = [{FAMILY: family, keys.ZONE: zone} for family, zone in groups]
    return [
        deployment("-".join(group), each, {"nodeSelector": selector})
        for group, selector in zip(groups, selectors, strict=True)
    ]


def deployment(name: str, pods: int, placement: Object) -> Object:
    """Pods of half a core that may be placed so."""
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
class Sightings:
    """When each machine reached each step and each pod ran, as watches of the API server show it."""

    times: Times = field(default_factory=lambda: defaultdict(dict))

    async def follow(self, kube: Kube, resource: Resource) -> None:
        """Watch one kind until cancelled."""
        namespace = "default" if resource.namespaced else None
        while True:
            with contextlib.suppress(DovetailError):
                listed = await kube.list(resource, namespace)
                for raw in listed.items:
                    self.note(raw)
                version = listed.resource_version
                async with aclosing(kube.watch(resource, version, namespace=namespace)) as events:
                    async for event in events:
                        if event.type in CHANGES:
                            self.note(event.object)

    def note(self, raw: Object) -> None:
        """One object as it is now."""
        name, now, status = raw["metadata"]["name"], time.time(), raw.get("status") or {}
        conditions = status.get("conditions") or ()
        true = {
            one["type"].removeprefix("Machine") for one in conditions if one["status"] == "True"
        }
        reached = {status["phase"]} & {RUNNING} if "phase" in status else true & {*STEPS}
        for step in reached:
            self.times[step].setdefault(name, now)

    def count(self, step: str) -> int:
        """How many got there."""
        return len(self.times[step])

    def seconds(self, step: str, since: float) -> float | None:
        """From ``since`` until the last so far got there."""
        return round(max(self.times[step].values()) - since, 1) if self.times[step] else None


@dataclass(frozen=True)
class Play:
    """What is measured: pods of these Deployments, and how many machines or pods must reach the end."""

    deployments: Sequence[Object]
    generation: str
    ends: dict[str, int]
    """Step -> how many."""

    @property
    def pods(self) -> int:
        """All that are wanted."""
        return sum(int(one["spec"]["replicas"]) for one in self.deployments)


async def prepared(bench: Bench, generation: str) -> None:
    """Pool and class, both markets; the class is looked up before the first pod comes."""
    market = {
        "key": "karpenter.sh/capacity-type",
        "operator": "In",
        "values": ["spot", "on-demand"],
    }
    linux = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    rules = {"requirements": [market, linux]}
    changes = {"template": {"spec": rules}} if generation == V1 else rules
    await apply_pool(bench.kube, bench.cluster_name, 600, generation, changes=changes)
    async with asyncio.timeout(MINUTE_SECONDS):
        while generation == V1 and not await _class_is_ready(bench):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _class_is_ready(bench: Bench) -> bool:
    raw = await bench.kube.get(EC2_NODE_CLASSES, "default")
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def played(bench: Bench, play: Play, started: float) -> Sightings:
    """Create the Deployments and watch until the end or until patience is over."""
    sightings = Sightings()
    kinds = (MACHINES if play.generation == V1ALPHA5 else NODE_CLAIMS, PODS)
    async with asyncio.TaskGroup() as group:
        watching = [group.create_task(sightings.follow(bench.kube, kind)) for kind in kinds]
        for deployment in play.deployments:
            await apply(bench.kube, DEPLOYMENTS, deployment)
        await _shown(sightings, play.ends, started + PATIENCE_SECONDS)
        for task in watching:
            task.cancel()
    return sightings


async def _shown(sightings: Sightings, ends: dict[str, int], until: float) -> None:
    """Bars on stderr, until all steps are at their ends or it is ``until``."""
    console = Console(stderr=True)
    columns = ("{task.description:<12}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        tasks = {step: bars.add_task(step, total=wanted) for step, wanted in ends.items()}
        while any(sightings.count(step) < n for step, n in ends.items()) and time.time() < until:
            for step, task in tasks.items():
                bars.update(task, completed=sightings.count(step))
            await asyncio.sleep(0.2)


async def fleets(bench: Bench) -> list[dict[str, Any]]:
    """Every CreateFleet so far but dry runs, oldest first."""
    calls = (await bench.emulator("calls?action=CreateFleet"))["calls"]
    return [call for call in calls if str(call["parameters"].get("DryRun")).lower() != "true"]


async def many(size: int, generation: str) -> tuple[Row, list[Row]]:
    """``size`` machines for as many pods: (row, processes)."""
    async with running(log_level="warning") as bench:
        await prepared(bench, generation)
        ends = dict.fromkeys((*STEPS, RUNNING), size)
        play = Play([apart(size)], generation, ends)
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


async def throttled(seconds: float, generation: str) -> Row:
    """2,000 pods that need 40 calls at least; EC2 refuses every call for so long, from the first on."""
    async with running(log_level="warning") as bench:
        await prepared(bench, generation)
        await bench.emulator("faults", {**THROTTLED, "seconds": PATIENCE_SECONDS})
        play = Play(pinned(PINNED_PODS, GROUPS), generation, {RUNNING: PINNED_PODS})
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
    """Ends the throttling so long after the first refused call: (begin, end). Raises TimeoutError without a call."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (calls := await fleets(bench)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    begins = float(calls[0]["at"])
    await asyncio.sleep(max(0.0, begins + seconds - time.time()))
    await bench.emulator("clear", {})
    return begins, time.time()


async def empty(percent: float, generation: str) -> Row:
    """So many per cent of the pools have nothing; whose family and zone have one pool left must run."""
    async with running(log_level="warning") as bench:
        await prepared(bench, generation)
        everything = {"instanceType": "*", "zone": "*", "capacityType": "*"}
        stated = {**everything, "available": 0, "percent": percent, "seed": SEED}
        await bench.emulator("capacity", stated)
        open_groups = await with_capacity(bench, percent)
        wanted = PINNED_PODS // len(GROUPS) * len(open_groups)
        play = Play(pinned(PINNED_PODS, GROUPS), generation, {RUNNING: wanted})
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
    """The groups of which a pool that holds a pod has something left, as the emulator draws them."""
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
    """The most of these moments that lie in a span of this length."""
    ordered = sorted(times)
    return max(
        (sum(first <= at < first + seconds for at in ordered) for first in ordered), default=0
    )


def most_a_minute(calls: Sequence[dict[str, Any]]) -> int:
    """With one client token, which stands for the machines of a call and their attempt."""
    by_token: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        by_token[call["parameters"]["ClientToken"]].append(call["at"])
    return max((most_within(times, MINUTE_SECONDS) for times in by_token.values()), default=0)


def main() -> None:
    """Run what was asked for and print it. Ends with status 1 when something is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--throttle", type=float, metavar="SECONDS")
    parser.add_argument("--empty", type=float, metavar="PERCENT")
    parser.add_argument("--generation", choices=(V1, V1ALPHA5), default=V1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    tables: dict[str, list[Row]] = {}
    if chosen.throttle is not None:
        tables["throttled"] = [asyncio.run(throttled(chosen.throttle, chosen.generation))]
    if chosen.empty is not None:
        tables["without capacity"] = [asyncio.run(empty(chosen.empty, chosen.generation))]
    if not tables:
        measured = [asyncio.run(many(size, chosen.generation)) for size in chosen.sizes]
        tables["launching"] = [row for row, _ in measured]
        tables["processes"] = [one for _, processes in measured for one in processes]
    for title, rows in tables.items():
        show(title, rows)
    save(chosen.json, tables)
    print(
        f"bars: 1,000 machines in {BAR_SECONDS:.0f} s and the launcher below {BAR_MEMORY_MIB} MiB; "
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
