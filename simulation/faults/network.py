"""Faults of the network between two parties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from simulation.faults.fault import SERVERS, Fault, FaultyWorld, Span, When, of_service


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """Connections break around one request."""

    kind: ClassVar[str] = "cut"
    process: str
    server: str
    when: When

    @property
    def text(self) -> str:
        moment = (
            "before it arrives" if self.when == "before" else "after its effect, before the answer"
        )
        return f"the next request of {self.process} to {self.server} is cut {moment}"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        process, server = _pair(random, processes)
        return cls(span.begin, process, server, random.choice(("before", "after")))

    async def apply(self, world: FaultyWorld) -> None:
        world.network.cut(self.process, self.server, self.when)


@dataclass(frozen=True, slots=True)
class Partition(Fault):
    """No byte passes between a process and a server; connections stay open until a side gives up."""

    kind: ClassVar[str] = "partition"
    process: str
    server: str
    seconds: float

    @property
    def text(self) -> str:
        return f"{self.process} does not reach {self.server} for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        process, server = _pair(random, processes)
        return cls(span.begin, process, server, span.seconds(random, 1.0, 90.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.network.partition(self.process, self.server, self.seconds)


@dataclass(frozen=True, slots=True)
class WatcherCutOff(Partition):
    """The mirror falls behind: a watcher does not reach the API server, and all others do."""

    kind: ClassVar[str] = "watcher-cut-off"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        process = random.choice(of_service("watcher", processes))
        return cls(span.begin, process, "api", span.seconds(random, 2.0, 20.0))


@dataclass(frozen=True, slots=True)
class HalfOpen(Partition):
    """The server closed its side, and the process does not learn it: what it sends is lost."""

    kind: ClassVar[str] = "half-open"

    @property
    def text(self) -> str:
        return (
            f"the connections of {self.process} to {self.server} are half open for {self.seconds} s"
        )

    async def apply(self, world: FaultyWorld) -> None:
        world.network.half_open(self.process, self.server, self.seconds)


@dataclass(frozen=True, slots=True)
class Latency(Fault):
    """Every message between the two takes longer."""

    kind: ClassVar[str] = "latency"
    process: str
    server: str
    delay_seconds: float
    seconds: float

    @property
    def text(self) -> str:
        pair = f"{self.process} and {self.server}"
        return f"messages between {pair} take {self.delay_seconds} s more for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        process, server = _pair(random, processes)
        delay = round(random.choice((0.05, 0.5, 3.0)) * random.uniform(0.5, 1.5), 3)
        return cls(span.begin, process, server, delay, span.seconds(random, 5.0, 90.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.network.latency(self.process, self.server, self.delay_seconds, self.seconds)


@dataclass(frozen=True, slots=True)
class WatcherLate(Latency):
    """The mirror is late all the time: what passes between a watcher and the API server takes long."""

    kind: ClassVar[str] = "watcher-late"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        delay = round(random.uniform(0.5, 4.0), 3)
        seconds = span.seconds(random, 10.0, 60.0)
        return cls(
            span.begin, random.choice(of_service("watcher", processes)), "api", delay, seconds
        )


@dataclass(frozen=True, slots=True)
class SlowReader(Fault):
    """A process reads slowly from all its connections, so that servers must wait with their answers."""

    kind: ClassVar[str] = "slow-reader"
    process: str
    seconds: float

    @property
    def text(self) -> str:
        return f"{self.process} reads slowly for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, random.choice(processes), span.seconds(random, 5.0, 60.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.network.slow_reader(self.process, self.seconds)


def _pair(random: Random, processes: Sequence[str]) -> tuple[str, str]:
    """A process and a server. The watcher does not call AWS."""
    process = random.choice(processes)
    talks = SERVERS if not process.startswith(("watcher", "scheduler")) else SERVERS[:2]
    return process, random.choice(talks)
