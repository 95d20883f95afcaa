"""What every fault is, and what it needs of the world that it is applied to.

The world is the simulated one or a stack of real processes: both offer the same methods. A method with ``seconds``
returns at once, and its effect ends by itself after that time. The same holds for ``apply`` of every fault.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal, Protocol, Self

When = Literal["before", "after"]
"""Whether a connection breaks before the request reaches the server, or after its effect and before the answer."""

SERVERS = ("redis", "api", "aws")


class Network(Protocol):
    """Connections between parties: ``SERVERS`` and the names of processes."""

    def cut(self, a: str, b: str, when: When) -> object: ...
    def partition(self, a: str, b: str, seconds: float) -> object: ...
    def latency(self, a: str, b: str, delay_seconds: float, seconds: float) -> object: ...
    def half_open(self, a: str, b: str, seconds: float) -> object: ...
    def slow_reader(self, party: str, seconds: float) -> object: ...


class Process(Protocol):
    """One replica of one service. Whoever runs it starts it again soon after its end."""

    starts: int

    @property
    def alive(self) -> bool: ...
    def kill(self) -> object: ...
    def kill_after(self, callbacks: int) -> object: ...
    def terminate(self) -> object: ...
    def pause(self, seconds: float) -> object: ...
    def skew(self, seconds: float) -> object: ...
    def end_loop(self, choice: float) -> object: ...
    def status(self) -> Mapping[str, object]: ...


class Redis(Protocol):
    """The Redis server."""

    def restart(self, *, keep_data: bool, down_seconds: float = 0.0) -> object: ...
    def fail_over(self, lost_seconds: float) -> object: ...
    def set_out_of_memory(self, full: bool) -> object: ...
    def set_disk_full(self, full: bool) -> object: ...
    def stall(self, seconds: float) -> object: ...
    def flush(self) -> object: ...


class Cluster(Protocol):
    """The API server, its etcd and the kubelets."""

    def down(self, seconds: float) -> object: ...
    def relist(self) -> object: ...
    def truncate_watches(self) -> object: ...
    def refuse(self, status: int, percent: float, seconds: float) -> object: ...
    def roll_back(self, seconds: float) -> object: ...
    def never_join(self, seconds: float) -> object: ...
    def stop_kubelets(self, percent: float, seconds: float) -> object: ...


class Aws(Protocol):
    """The AWS emulator."""

    def control(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]: ...
    def mix_messages(self, copies: int, seconds: float) -> object: ...


class Trace(Protocol):
    """Where a fault is recorded before it is applied, and where it sees what happens."""

    def add(self, kind: str, **fields: str | int | float | None) -> None: ...
    def observe(self, observer: Callable[[Any], None]) -> None: ...


class FaultyWorld(Protocol):
    """Everything that faults can reach."""

    @property
    def network(self) -> Network: ...
    @property
    def processes(self) -> Mapping[str, Process]: ...
    @property
    def redis(self) -> Redis: ...
    @property
    def cluster(self) -> Cluster: ...
    @property
    def aws(self) -> Aws: ...
    @property
    def trace(self) -> Trace: ...


LEAST_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Span:
    """When a fault begins and when its effect must have ended at the latest, in seconds from the start of the run."""

    begin: float
    latest_end: float

    def seconds(self, random: Random, shortest: float, longest: float) -> float:
        """A duration between the two that ends in time; never none, which servers refuse."""
        drawn = min(random.uniform(shortest, longest), self.latest_end - self.begin)
        return max(round(drawn, 1), LEAST_SECONDS)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan. ``kind`` is its name in scenarios, figures and traces."""

    kind: ClassVar[str]
    at_seconds: float

    @property
    @abstractmethod
    def text(self) -> str:
        """What happens, for people."""

    @property
    def lasts_seconds(self) -> float:
        """How long its effect lasts; 0 for one that is over at once."""
        return float(getattr(self, "seconds", 0.0))

    @classmethod
    @abstractmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        """A fault of this kind that begins and ends within ``span``."""

    @abstractmethod
    async def apply(self, world: FaultyWorld) -> None:
        """Cause the fault, and arrange that its effect ends."""

    def __str__(self) -> str:
        return self.text


def later(seconds: float, act: Callable[..., object], *arguments: object) -> None:
    """Call ``act`` after ``seconds``, for example to end an effect."""
    asyncio.get_running_loop().call_later(seconds, act, *arguments)


def of_service(service: str, processes: Sequence[str]) -> Sequence[str]:
    """The replicas of one service; all processes where it has none."""
    return [name for name in processes if name.startswith(service)] or processes
