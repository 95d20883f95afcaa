"""Faults at the moment of an announcement of EC2: while it is handled something else fails, or it never comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from simulation.faults.aws import LARGEST_SEED, SpotInterruptions
from simulation.faults.fault import Fault, FaultyWorld, Span
from simulation.faults.processes import Kill

HANDLER = "interruption"
FEW_CALLBACKS = 120
"""An announcement is handled within so many callbacks of its process."""


@dataclass(frozen=True, slots=True)
class NoticeAndKill(Kill):
    """EC2 announces the end of a spot instance, and the process that handles it is killed while it does."""

    kind: ClassVar[str] = "notice-and-kill"
    seed: int = 0

    @property
    def text(self) -> str:
        return f"a spot instance is to end, and {self.process} is killed after {self.callbacks} more callbacks"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        process = _handler(random, processes)
        callbacks = random.randint(1, FEW_CALLBACKS)
        return cls(span.begin, process, callbacks, random.randrange(LARGEST_SEED))

    async def apply(self, world: FaultyWorld) -> None:
        await SpotInterruptions(self.at_seconds, 1.0, self.seed).apply(world)
        await Kill.apply(self, world)


@dataclass(frozen=True, slots=True)
class NoticeRefused(Fault):
    """EC2 announces the end of a spot instance while the API server refuses every request."""

    kind: ClassVar[str] = "notice-refused"
    seconds: float
    seed: int

    @property
    def text(self) -> str:
        return f"a spot instance is to end, and the API server answers 500 for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, span.seconds(random, 5.0, 20.0), random.randrange(LARGEST_SEED))

    async def apply(self, world: FaultyWorld) -> None:
        world.cluster.refuse(500, 100.0, self.seconds)
        await SpotInterruptions(self.at_seconds, 1.0, self.seed).apply(world)


@dataclass(frozen=True, slots=True)
class NoticesLost(Fault):
    """No announcement arrives in the queue: EventBridge promises none of those about states of instances."""

    kind: ClassVar[str] = "notices-lost"
    seconds: float

    @property
    def text(self) -> str:
        return f"the queue gets no announcement for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, span.seconds(random, 30.0, 120.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.aws.mix_messages(0, self.seconds)


def _handler(random: Random, processes: Sequence[str]) -> str:
    return random.choice([one for one in processes if one.startswith(HANDLER)] or [*processes])
