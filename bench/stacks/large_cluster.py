"""The scheduler beside a cluster of 5,000 nodes and 100,000 pods: memory, start, and time from event to verdict.

Run ``python -m bench.stacks.large_cluster``. The scheduler is the real process, beside a real Redis and the embedded
API server. This program is the watcher: it writes the mirror and changes 500 pods a second all the time. Some pods come
that fit nowhere, and the next ones when the scheduler's ``/status`` counts these, a second later at the earliest: that
is the time from event to verdict, of which the batch window is a second. Passes of disruption are off: they would
delete nodes of a cluster that is only written down (``bench.consolidation`` measures them).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.inputs.clusters import Shape, cluster
from bench.report import Row, options, progress, save, show
from bench.stacks.cpu_shares import cpu_seconds
from bench.stacks.local_stack import Bench, peak_mib, running
from local.probe import request_json
from services.scheduler.disruption.conditions import due, occupied_nodes
from services.watcher.conversion import KINDS
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.concurrency.clock import SystemClock
from shared.concurrency.tasks import TaskGroup
from shared.domain.instance_types.types import encode_catalogue
from shared.domain.machines.machine import Condition
from shared.domain.records import MACHINES, NODE_CLASSES, NODE_POOLS, NODES, PODS
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import Unreachable
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from shared.redis.messages import PodUnschedulable, encode
from shared.redis.mirror import Change, MirrorWriter, Position
from shared.redis.mirror.catalogue.offerings import CatalogueStore

PORT = 18098
CHANGES_PER_SECOND = 500
TURNS_PER_SECOND = 10
HOPELESS_AT_ONCE = 5
PATIENCE_SECONDS = 120.0
SOUND = {kind.resource.plural: Position(version="", sound=True, seconds=0.0) for kind in KINDS}
"""Watches that are open."""


def contents(snapshot: Snapshot) -> dict[str, dict[str, bytes]]:
    """Kind -> key -> record, as the watcher writes them."""
    kinds: dict[str, tuple[Any, ...]] = {
        PODS: snapshot.pods,
        NODES: snapshot.nodes,
        MACHINES: snapshot.machines,
        NODE_POOLS: snapshot.pools,
        NODE_CLASSES: snapshot.node_classes,
    }
    return {
        kind: {getattr(one, "key", one.name): msgspec.json.encode(one) for one in records}
        for kind, records in kinds.items()
    }


def hopeless(number: int, like: Pod) -> Pod:
    """A pod that fits on no type."""
    requests = {**like.requests, "cpu": 10_000_000}
    return replace(
        like, uid=f"hopeless-{number}", name=f"hopeless-{number}", node_name="", phase="Pending",
        unschedulable=True, requests=requests,
    )  # fmt: skip


class Feed:
    """What the watcher would write."""

    def __init__(self, bus: Bus, writer: MirrorWriter, snapshot: Snapshot) -> None:
        self.bus, self.writer = bus, writer
        self.pods = [pod for pod in snapshot.pods if pod.node_name]
        self.random = Random(1)
        self.clock = SystemClock()
        self.hopeless = 0
        self.turns = 0

    async def hearts(self) -> None:
        """Heartbeats, until cancelled."""
        while True:
            await self.writer.heartbeat(SOUND)
            await asyncio.sleep(2.0)

    async def changes(self) -> None:
        """Changes pods, until cancelled. What is late is made up for."""
        begun = time.monotonic()
        for turn in itertools.count():
            changed = self.random.sample(self.pods, CHANGES_PER_SECOND // TURNS_PER_SECOND)
            await self._write([replace(p, labels={**p.labels, "turn": str(turn)}) for p in changed])
            self.turns = turn + 1
            due = begun + self.turns / TURNS_PER_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _write(self, pods: Iterable[Pod]) -> int:
        """Returns the generation of the mirror."""
        return await self.writer.apply(
            [Change(PODS, pod.key, msgspec.json.encode(pod)) for pod in pods]
        )

    async def arrive(self) -> int:
        """Some pods come; returns how many fit nowhere since the beginning."""
        new = [hopeless(self.hopeless + i, self.pods[0]) for i in range(HOPELESS_AT_ONCE)]
        self.hopeless += len(new)
        generation = await self._write(new)
        for pod in new:
            message = PodUnschedulable(uid=pod.uid, pod=pod.key, generation=generation)
            await self.bus.publish(streams.PODS, encode(message, cause=pod.key, clock=self.clock))
        return self.hopeless


def settled(snapshot: Snapshot) -> Snapshot:
    """With the conditions that the scheduler would write on its machines: these are not in the API server."""
    pools = {pool.key: pool for pool in snapshot.pools}
    occupied = occupied_nodes(snapshot.pods)
    changes = due(snapshot.machines, pools, occupied, frozenset(), now=time.time())
    found = {machine.key: machine for machine in snapshot.machines}
    for change in changes:
        value = Condition("True" if change.is_true else "False", change.condition)
        conditions = {**found[change.machine.key].conditions, change.condition: value}
        found[change.machine.key] = replace(change.machine, conditions=conditions)
    return replace(snapshot, machines=tuple(found.values()))


async def status() -> dict[str, object]:
    """The scheduler's; empty while it does not answer."""
    with suppress(Unreachable):
        found: dict[str, object] = await asyncio.to_thread(
            request_json, f"http://127.0.0.1:{PORT}/status"
        )
        return found
    return {}


async def until(count: int) -> None:
    """The scheduler counts so many pods without a place. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while int(str((await status()).get("unschedulableCount") or 0)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def measure(nodes: int, seconds: int) -> Row:
    """One row."""
    aws = bundled_catalogue()
    snapshot = settled(cluster(Shape("large", "FewestNodes", (1.0, 1.0), 16, 20.0), nodes, aws))
    with tempfile.TemporaryDirectory() as folder:
        async with running(services=(), console=False) as bench:
            environment = bench.stack.running().environment
            bus = Bus(
                environment["REDIS_URL"], bench.cluster_name, clock=SystemClock(), random=Random(2)
            )
            await CatalogueStore(bus.redis, bus.prefix).put(encode_catalogue(aws), "bench")
            writer = MirrorWriter(
                bus.redis, bus.prefix, epoch="bench", key=environment.get("MIRROR_KEY", "")
            )
            await writer.begin(contents(snapshot))
            feed = Feed(bus, writer, snapshot)
            async with TaskGroup() as group:
                always = [group.create_task(one) for one in (feed.hearts(), feed.changes())]
                row = await _measured(bench, feed, Path(folder), snapshot, seconds)
                for task in always:
                    task.cancel()
            await bus.close()
            return row


async def _measured(
    bench: Bench, feed: Feed, folder: Path, snapshot: Snapshot, seconds: int
) -> Row:
    started = time.perf_counter()
    environment = {
        **os.environ, **bench.stack.running().environment, "STATUS_PORT": str(PORT), "DISRUPTION": "off",
        "DISABLE_LEADER_ELECTION": "true",
        "RECORD_STORE": str(folder), "BATCH_IDLE_DURATION": "1s",
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.scheduler", env=environment,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await until(await feed.arrive())
        first = time.perf_counter() - started
        verdicts, before, since = [], cpu_seconds(process.pid), time.perf_counter()
        for _ in progress(range(seconds), "arrivals"):
            begun = time.perf_counter()
            await until(await feed.arrive())
            verdicts.append(time.perf_counter() - begun)
            await asyncio.sleep(max(0.0, 1.0 - verdicts[-1]))
        spent, peak = cpu_seconds(process.pid) - before, peak_mib(process.pid)
        lasted = time.perf_counter() - since
    finally:
        process.kill()
        await process.wait()
    memory = bytes(await call(feed.bus.redis, "read the memory in use", "INFO", "memory"))
    verdicts.sort()
    return {
        "nodes": len(snapshot.nodes),
        "pods": len(snapshot.pods),
        "start to first plan, s": round(first, 1),
        "event to verdict, s: median": round(statistics.median(verdicts), 2),
        "p99": round(verdicts[int(0.99 * (len(verdicts) - 1))], 2),
        "scheduler, MiB": peak,
        "Redis, MiB": int(memory.split(b"used_memory:")[1].split()[0]) >> 20,
        "CPU s a verdict": round(spent / len(verdicts), 2),
        "CPU s a second": round(spent / lasted, 2),
    }


def main() -> None:
    """Measures and prints one table."""
    chosen = options(__doc__)
    nodes, seconds = (300, 5) if chosen.quick else (5000, 30)
    rows = [asyncio.run(measure(nodes, seconds))]
    show("A scheduler beside a large cluster", rows)
    save(chosen.json, {"large cluster": rows})


if __name__ == "__main__":
    main()
