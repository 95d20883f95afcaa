"""Throughput of interruption notices: messages per second, and the time until each Machine or NodeClaim is deleted.

The messages are those of Karpenter's benchmark, a third each of spot warnings, scheduled changes and state changes.
Some of each third name foreign instances, some are duplicates, some are malformed. Each size runs on its own local
stack of Redis, API server, AWS emulator, watcher and interruption service, so the numbers include the emulators. Run
`python -m bench.interruption`; `--sizes 100 1000` runs smaller sizes, `--kills 0` does not kill the service. During the
largest size the service is killed with SIGKILL several times; all notices must still be handled within 60 s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

from bench.report import Row, save, show
from bench.stacks.cpu_shares import CpuShares
from bench.stacks.sqs_queue import Queue, served
from local.stack import Stack, StackSettings
from local.stack_plan import PROJECT, clean_environment
from shared.concurrency.clock import SystemClock, rfc3339
from shared.concurrency.tasks import TaskGroup
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, NODE_CLAIMS, Resource
from shared.redis.bus import Bus
from shared.redis.streams import INTERRUPTIONS

SIZES = (100, 1000, 5000, 15_000)
KILLS = 5
BAR_SECONDS = 60.0
BAR_MEMORY_MIB = 200
PATIENCE_SECONDS = 300.0
FOREIGN, TWICE, MALFORMED = 10, 20, 50
"""One of so many messages names a foreign instance, is sent twice, or is malformed."""
BYSTANDERS = 20
"""Machines that no message names."""
AT_ONCE = 32
OURS = "interruption"
TYPES = [f"m{n}.large" for n in range(60)]


@dataclass(frozen=True)
class Mix:
    """Bodies to send, the instances whose Machines must be deleted, and the number of malformed bodies."""

    bodies: list[str]
    ours: set[str]
    malformed: int


def instance_id(number: int) -> str:
    """A valid EC2 instance id."""
    return f"i-{number:017x}"


def mix(count: int) -> Mix:
    """``count`` messages, equal for equal counts except for their times, which are the current time."""
    bodies: list[str] = []
    ours: set[str] = set()
    malformed = 0
    for number in itertools.count():
        if len(bodies) >= count:
            return Mix(bodies, ours, malformed)
        body = body_of(number)
        if number % MALFORMED == MALFORMED - 1:
            bodies.append(body[: len(body) // 2])
            malformed += 1
            continue
        bodies.append(body)
        if number % FOREIGN:
            ours.add(instance_id(number))
            if number % TWICE == 1 and len(bodies) < count:
                bodies.append(body)
    raise AssertionError("unreachable")


def body_of(number: int) -> str:
    """An EventBridge event: a spot warning, a scheduled change or a state change, in turn."""
    instance, now = instance_id(number), time.time()
    source, kind, detail = (
        ("aws.ec2", "EC2 Spot Instance Interruption Warning", {
            "instance-id": instance, "instance-action": "terminate",
        }),
        ("aws.health", "AWS Health Event", {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "startTime": formatdate(now + 86_400, usegmt=True),
            "affectedEntities": [{"entityValue": instance}],
        }),
        ("aws.ec2", "EC2 Instance State-change Notification", {
            "instance-id": instance, "state": "stopping",
        }),
    )[number % 3]  # fmt: skip
    return json.dumps(
        {
            "version": "0",
            "id": f"event-{number}",
            "source": source,
            "detail-type": kind,
            "time": rfc3339(now),
            "detail": detail,
        }
    )


def machine_body(number: int, generation: str) -> dict[str, Any]:
    """A Machine or NodeClaim as the scheduler creates it, with sixty instance types."""
    old = generation == "Machine"
    pool = "karpenter.sh/provisioner-name" if old else "karpenter.sh/nodepool"
    reference = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "name": "default",
    } if old else {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}  # fmt: skip
    labels = {
        pool: "default",
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": "us-west-2a",
    }
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": TYPES}
    return {
        "metadata": {
            "name": f"default-{number}",
            "labels": labels,
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "requirements": [requirement],
            "resources": {"requests": {"cpu": "1"}},
            "machineTemplateRef" if old else "nodeClassRef": reference,
        },
    }


@dataclass
class Watcher:
    """When each Machine was first seen with a deletion timestamp, in seconds since the epoch."""

    kube: Kube
    deleted: dict[str, float] = field(default_factory=dict)

    async def run(self, resource: Resource) -> None:
        """Watches one kind until cancelled."""
        while True:
            listed = await self.kube.list(resource)
            for raw in listed.items:
                self._note(raw)
            with contextlib.suppress(DovetailError):
                async with aclosing(self.kube.watch(resource, listed.resource_version)) as events:
                    async for event in events:
                        self._note(event.object)

    def _note(self, raw: dict[str, Any]) -> None:
        if raw.get("metadata", {}).get("deletionTimestamp"):
            instance = raw["status"]["providerID"].rsplit("/", 1)[-1]
            self.deleted.setdefault(instance, time.time())


@dataclass
class Storm:
    """The messages of one size on one stack."""

    stack: Stack
    kube: Kube
    queue: Queue
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    sent: dict[str, float] = field(default_factory=dict)
    memory_mib: int = 0
    cpu: CpuShares = field(default_factory=lambda: CpuShares({}))

    async def create(self, numbers: Sequence[int]) -> None:
        """Creates Machines and NodeClaims in turn, each with its instance."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def create(number: int) -> None:
            generation, resource = (("Machine", MACHINES), ("NodeClaim", NODE_CLAIMS))[number % 2]
            async with gate:
                made = await self.kube.create(resource, machine_body(number, generation))
                provider = {"providerID": f"aws:///us-west-2a/{instance_id(number)}"}
                name = made["metadata"]["name"]
                await self.kube.patch(resource, name, {"status": provider}, subresource="status")

        await asyncio.gather(*(create(number) for number in numbers))

    def send(self, bodies: Sequence[str]) -> None:
        """Sends all bodies at once."""
        now = time.time()
        self.sent = {name: now for body in bodies for name in _named(body)}
        self.queue.send(bodies)

    def start(self) -> None:
        """Starts the service outside the stack, whose supervisor would wait longer after each kill."""
        command = [sys.executable, "-m", "services.interruption"]
        log = (self.stack.directory / "interruption.log").open("ab")
        self.process = subprocess.Popen(command, env=self.environment, cwd=PROJECT, stdout=log)

    def count_cpu(self) -> None:
        """Starts counting CPU time."""
        self.cpu = CpuShares(self._pids())

    def _pids(self) -> dict[str, int]:
        parts = {part.name: part.process.pid for part in self.stack.running().parts}
        ours = {OURS: self.process.pid} if self.process else {}
        return {**parts, "bench": os.getpid(), **ours}

    def record(self) -> None:
        """Records the service's largest resident size over all restarts, and each process' CPU time."""
        if self.process is None:
            return
        for name, pid in self._pids().items():
            self.cpu.record(name, pid)
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                self.memory_mib = max(self.memory_mib, int(line.split()[1]) // 1024)

    def end(self) -> None:
        """Kills the service with SIGKILL, as a power failure would."""
        if self.process is not None:
            self.record()
            self.process.kill()
            self.process.wait()


def _named(body: str) -> list[str]:
    start = body.find("i-0")
    return [body[start : start + 19]] if start >= 0 else []


async def play(storm: Storm, count: int, kills: int) -> Row:
    """Runs one size from the first message to the empty queue. Raises TimeoutError after PATIENCE_SECONDS."""
    wanted = mix(count)
    numbers = sorted(int(name[2:], 16) for name in wanted.ours)
    bystanders = range(numbers[-1] + 1, numbers[-1] + 1 + BYSTANDERS)
    await storm.create([*numbers, *bystanders])
    watcher = Watcher(storm.kube)
    async with TaskGroup() as group:
        watching = [group.create_task(watcher.run(kind)) for kind in (MACHINES, NODE_CLAIMS)]
        await asyncio.sleep(1)  # the watcher has written the last Machine to the mirror
        storm.count_cpu()
        started = time.time()
        storm.send(wanted.bodies)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await _until_empty(storm, watcher, len(wanted.ours), kills)
        ended = time.time()
        storm.record()
        for task in watching:
            task.cancel()
    lost = wanted.ours - watcher.deleted.keys()
    touched = watcher.deleted.keys() - wanted.ours
    late = sorted(watcher.deleted[name] - storm.sent[name] for name in wanted.ours - lost)
    return {
        "messages": count,
        "kills": kills,
        "seconds": round(ended - started, 1),
        "messages/s": round(count / (ended - started)),
        "p50 s": round(statistics.median(late), 2),
        "p99 s": round(late[int(len(late) * 0.99)], 2),
        "memory MiB": storm.memory_mib,
        **_shares(storm.cpu.seconds()),
        "lost": len(lost),
        "touched": len(touched),
        "malformed": wanted.malformed,
        "dead letters": await dead_letters(storm),
    }


def faults(row: Row) -> list[str]:
    """Errors: lost notices, deleted bystanders, and dead letters that do not match the malformed messages."""
    found = [f"{row[name]} {name}" for name in ("lost", "touched") if row[name]]
    if row["dead letters"] != row["malformed"]:
        found.append(f"{row['dead letters']} dead letters of {row['malformed']} malformed messages")
    return [f"{row['messages']} messages: {fault}" for fault in found]


def _shares(seconds: dict[str, float]) -> Row:
    """CPU seconds of the service, the API server, the watcher, and this process with its queue and watches."""
    names = {"CPU s": OURS, "API server": "cluster", "watcher": "watcher", "bench": "bench"}
    return {column: round(seconds.get(name, 0.0), 1) for column, name in names.items()}


async def _until_empty(storm: Storm, watcher: Watcher, ours: int, kills: int) -> None:
    killed = 0
    while len(watcher.deleted) < ours or storm.queue.bodies:
        storm.record()
        if killed < kills and len(watcher.deleted) > ours * (killed + 1) / (kills + 2):
            storm.end()
            storm.start()
            killed += 1
        await asyncio.sleep(0.2)


async def dead_letters(storm: Storm) -> int:
    """The number of dead letters of the stream ``interruptions``."""
    url = storm.stack.running().environment["REDIS_URL"]
    bus = Bus(url, "dovetail-local", clock=SystemClock(), random=random.Random(0))
    try:
        return (await bus.depth(INTERRUPTIONS)).dead
    finally:
        await bus.close()


async def one_size(count: int, kills: int) -> Row:
    """Runs one size on a new stack."""
    queue = Queue()
    with tempfile.TemporaryDirectory() as directory:
        async with served(queue) as url:
            return await _on_stack(Path(directory), queue, url, count, kills)


async def _on_stack(directory: Path, queue: Queue, url: str, count: int, kills: int) -> Row:
    stack = Stack(directory)
    settings = StackSettings(
        directory=stack.directory,
        services=("watcher",),
        log_level="warning",
    )
    await asyncio.to_thread(stack.start, settings, detach=False)
    environment = {
        **clean_environment(os.environ),
        **stack.running().environment,
        "AWS_ENDPOINT_URL": url,
        "INSTANCE_STATUS_PERIOD": "0",
        "INTERRUPTION_QUEUE": "dovetail-local",
        "STATUS_PORT": "0",
        "LOG_LEVEL": "warning",
    }
    kube = await Kube.connect(
        stack.running().environment["KUBECONFIG"],
        clock=SystemClock(),
        random=random.Random(0),
        user_agent="bench",
        qps=5000,
        burst=5000,
    )
    try:
        storm = Storm(stack, kube, queue, environment)
        storm.start()
        try:
            return await play(storm, count, kills)
        finally:
            storm.end()
    finally:
        await kube.close()
        await asyncio.to_thread(stack.stop)


def main() -> None:
    """Runs the sizes and prints one table. Exits with an error when a notice is lost or mishandled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--kills", type=int, default=KILLS, help="at the largest size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    rows = []
    for size in chosen.sizes:
        kills = chosen.kills if size == max(chosen.sizes) else 0
        rows.append(asyncio.run(one_size(size, kills)))
    show("interruption notices", rows)
    save(chosen.json, {"interruption": rows})
    print(
        f"targets: the largest size in {BAR_SECONDS:.0f} s, below {BAR_MEMORY_MIB} MiB, none lost or touched,"
        " one dead letter per malformed message"
    )
    found = [fault for row in rows for fault in faults(row)]
    if found:
        sys.exit("; ".join(found))


if __name__ == "__main__":
    main()
