"""Faults of the API server, of etcd and of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from simulation.faults.fault import Fault, FaultyWorld, Span


@dataclass(frozen=True, slots=True)
class ApiDown(Fault):
    """The API server is gone: connections break and are refused."""

    kind: ClassVar[str] = "api-down"
    seconds: float

    @property
    def text(self) -> str:
        return f"the API server is down for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, span.seconds(random, 1.0, 60.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.down(self.seconds)


@dataclass(frozen=True, slots=True)
class Relist(Fault):
    """The API server compacted its history: every watch gets 410."""

    kind: ClassVar[str] = "relist"

    @property
    def text(self) -> str:
        return "every watch is too old and gets 410"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin)

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.relist()


@dataclass(frozen=True, slots=True)
class WatchTruncated(Relist):
    """Watches end in the middle of a line."""

    kind: ClassVar[str] = "watch-truncated"

    @property
    def text(self) -> str:
        return "every watch ends in the middle of a line"

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.truncate_watches()


@dataclass(frozen=True, slots=True)
class ApiRefusals(Fault):
    """A share of the requests is refused."""

    kind: ClassVar[str] = "api-refusals"
    status: int
    percent: float
    seconds: float

    @property
    def text(self) -> str:
        return f"the API server answers {self.status} to {self.percent:g} % of the requests for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        status, percent = random.choice((409, 429, 500)), random.choice((5.0, 30.0, 90.0))
        return cls(span.begin, status, percent, span.seconds(random, 2.0, 60.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.refuse(self.status, self.percent, self.seconds)


@dataclass(frozen=True, slots=True)
class EtcdRollback(Fault):
    """etcd is restored from a backup: objects and resource versions are those of a minute ago."""

    kind: ClassVar[str] = "etcd-rollback"
    by_seconds: float

    @property
    def text(self) -> str:
        return f"etcd is restored to its state of {self.by_seconds} s ago"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, round(min(random.uniform(5.0, 60.0), span.begin), 1))

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.roll_back(self.by_seconds)


@dataclass(frozen=True, slots=True)
class NeverJoins(ApiDown):
    """Nodes of instances that are launched in this time never join."""

    kind: ClassVar[str] = "never-joins"

    @property
    def text(self) -> str:
        return f"instances that are launched within {self.seconds} s never join the cluster"

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.never_join(self.seconds)


@dataclass(frozen=True, slots=True)
class KubeletsStop(Fault):
    """Kubelets stop: their nodes become unreachable, their pods stay."""

    kind: ClassVar[str] = "kubelets-stop"
    percent: float
    seconds: float

    @property
    def text(self) -> str:
        return f"the kubelets of {self.percent:g} % of the nodes stop for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, random.choice((5.0, 20.0)), span.seconds(random, 20.0, 120.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.stop_kubelets(self.percent, self.seconds)
