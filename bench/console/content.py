"""A large cluster as records of the mirror, and changes of its pods that never end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import msgspec

from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.workloads.pods import Pod
from shared.redis.mirror import Change
from tests.support.console.records import pair, running
from tests.support.planning.builders import ZONES

POOLS = ("default", "batch", "web", "memory")
TYPES = ("m5.xlarge", "c5.xlarge", "r5.xlarge", "m6i.xlarge")
APPS = ("api", "checkout", "search", "worker", "cache", "report", "mail", "gateway")
SIZES = (("50m", "128Mi"), ("100m", "256Mi"), ("200m", "512Mi"), ("350m", "1Gi"))


@dataclass
class Large:
    """``nodes`` nodes with ``pods`` pods. The oldest pod goes first."""

    nodes: int
    pods: int
    _alive: deque[str] = field(default_factory=deque)
    _numbers: Iterator[int] = field(default_factory=count)

    def snapshot(self) -> dict[str, dict[str, bytes]]:
        """The whole mirror, by kind and key."""
        pairs = [pair_of(number) for number in range(self.nodes)]
        pods = [self._pod() for _ in range(self.pods)]
        return {
            "machines": {one.key: msgspec.json.encode(one) for one, _ in pairs},
            "nodes": {one.name: msgspec.json.encode(one) for _, one in pairs},
            "pods": {one.key: msgspec.json.encode(one) for one in pods},
        }

    def changes(self, amount: int) -> list[Change]:
        """Half of ``amount`` pods go, the oldest first, and as many come."""
        going = [self._alive.popleft() for _ in range(amount // 2)]
        coming = [self._pod() for _ in going]
        return [Change("pods", key, None) for key in going] + [
            Change("pods", one.key, msgspec.json.encode(one)) for one in coming
        ]

    def _pod(self) -> Pod:
        number, now = next(self._numbers), time.time()
        cpu, memory = SIZES[(number + number // self.nodes) % len(SIZES)]
        app = APPS[number // 7 % len(APPS)]
        name, node = f"{app}-{number:08d}", f"ip-{name_of(number % self.nodes)}"
        made = running(
            name, node, namespace=app, cpu=cpu, memory=memory, started_at=now, created_at=now
        )
        self._alive.append(made.key)
        return made


def name_of(number: int) -> str:
    """Of a machine."""
    return f"{POOLS[number % len(POOLS)]}-{number:05d}"


def pair_of(number: int) -> tuple[Machine, Node]:
    """The machine of this number and its node."""
    index = number % len(POOLS)
    return pair(name_of(number), POOLS[index], TYPES[index], ZONES[number % 3], age=3600.0 + number)
