"""Faults of Redis. The services promise to lose nothing, whatever Redis forgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from simulation.faults.fault import Fault, FaultyWorld, Span, later


@dataclass(frozen=True, slots=True)
class RedisRestart(Fault):
    """Redis restarts: connections break, scripts are forgotten, and without persistence the data too."""

    kind: ClassVar[str] = "redis-restart"
    keep_data: bool
    down_seconds: float

    @property
    def text(self) -> str:
        data = "with" if self.keep_data else "without"
        return f"Redis restarts {data} its data within {self.down_seconds} s"

    @property
    def lasts_seconds(self) -> float:
        return self.down_seconds

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, random.random() < 0.5, span.seconds(random, 0.0, 15.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.redis.restart(keep_data=self.keep_data, down_seconds=self.down_seconds)


@dataclass(frozen=True, slots=True)
class RedisFlush(Fault):
    """Somebody empties Redis; connections stay."""

    kind: ClassVar[str] = "redis-flush"

    @property
    def text(self) -> str:
        return "Redis is emptied"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin)

    async def apply(self, world: FaultyWorld) -> None:
        world.redis.flush()


@dataclass(frozen=True, slots=True)
class RedisFailover(Fault):
    """A replica takes over that had not received the last writes, though they were acknowledged."""

    kind: ClassVar[str] = "redis-failover"
    lost_seconds: float

    @property
    def text(self) -> str:
        return f"Redis fails over and loses the last {self.lost_seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, round(random.uniform(0.05, 1.0), 2))

    async def apply(self, world: FaultyWorld) -> None:
        world.redis.fail_over(self.lost_seconds)


@dataclass(frozen=True, slots=True)
class RedisStall(Fault):
    """Redis accepts commands and answers late."""

    kind: ClassVar[str] = "redis-stall"
    seconds: float

    @property
    def text(self) -> str:
        return f"Redis answers nothing for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, span.seconds(random, 0.5, 45.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.redis.stall(self.seconds)


@dataclass(frozen=True, slots=True)
class RedisFull(RedisStall):
    """Redis refuses commands that need memory; reading and acknowledging go on."""

    kind: ClassVar[str] = "redis-full"

    @property
    def text(self) -> str:
        return f"Redis is out of memory for {self.seconds} s"

    async def apply(self, world: FaultyWorld) -> None:
        world.redis.set_out_of_memory(True)
        later(self.seconds, world.redis.set_out_of_memory, False)


@dataclass(frozen=True, slots=True)
class DiskFull(RedisStall):
    """Redis refuses every write because it cannot save. The services themselves write no file."""

    kind: ClassVar[str] = "disk-full"

    @property
    def text(self) -> str:
        return f"the disk of Redis is full for {self.seconds} s"

    async def apply(self, world: FaultyWorld) -> None:
        world.redis.set_disk_full(True)
        later(self.seconds, world.redis.set_disk_full, False)
