"""Faults at the moment of a launch: EC2 has started instances, nobody knows of them, and something else fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Self

from simulation.faults.aws import FORBIDDEN, LAGS, LARGEST_SEED
from simulation.faults.fault import Fault, FaultyWorld, Span, later, of_service
from simulation.faults.processes import WAIT_SECONDS, long_one

LAUNCHER = "launcher"
CALL = "CreateFleet"
STRIKE_SECONDS = 0.002
"""After a call, when its instances are known and its answer is on its way."""
LOST_ANSWERS = 8
"""Of calls that start fewer instances than a fault waits for."""
UNSEEN_SECONDS = 90.0
"""So late EC2 may list a new instance."""
TAKEN_OVER_SECONDS = 85.0
"""A launcher that stands still for so long has lost its messages to another one, which has asked EC2 twice since."""


@dataclass(frozen=True, slots=True)
class LaunchLost(Fault):
    """The launchers are killed when EC2 starts instances, which end before the launchers are back. Then EC2 takes no
    call, so that nothing but a list says what became of them."""

    kind: ClassVar[str] = "launch-lost"
    seconds: float

    @property
    def text(self) -> str:
        return (
            "launchers are killed when they start instances, which end, and "
            f"{CALL} is forbidden, within {self.seconds} s"
        )

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, span.seconds(random, WAIT_SECONDS + 20.0, WAIT_SECONDS + 40.0))

    async def apply(self, world: FaultyWorld) -> None:
        def strike(ids: list[str]) -> None:
            for name in _launchers(world):
                world.processes[name].kill()
            _forbid(world, self.seconds - WAIT_SECONDS)
            _change(world, ids, "terminated")

        _at_next_launch(world, 1, self.seconds, strike)


@dataclass(frozen=True, slots=True)
class LaunchStopped(Fault):
    """The launchers are killed when EC2 starts instances, which somebody stops before the launchers are back."""

    kind: ClassVar[str] = "launch-stopped"
    seconds: float

    @property
    def text(self) -> str:
        return (
            f"launchers are killed when they start instances, which stop, within {self.seconds:g} s"
        )

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(*long_one(random, span, WAIT_SECONDS + 1.0, WAIT_SECONDS + 2.0))

    async def apply(self, world: FaultyWorld) -> None:
        def strike(ids: list[str]) -> None:
            for name in _launchers(world):
                world.processes[name].kill()
            _change(world, ids, "stopping")

        _at_next_launch(world, 1, self.seconds, strike)


@dataclass(frozen=True, slots=True)
class LaunchOvertaken(Fault):
    """A launcher stands still when EC2 starts instances, which end. It gets its answer when another launcher has taken
    its work over and bought again."""

    kind: ClassVar[str] = "launch-overtaken"
    process: str
    seconds: float

    @property
    def text(self) -> str:
        return (
            f"{self.process} stands still when {CALL} starts instances, which end, "
            f"within {self.seconds} s"
        )

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        shortest = TAKEN_OVER_SECONDS + WAIT_SECONDS
        begin, seconds = long_one(random, span, shortest, shortest + 15.0)
        return cls(begin, random.choice(of_service(LAUNCHER, processes)), seconds)

    async def apply(self, world: FaultyWorld) -> None:
        def strike(ids: list[str]) -> None:
            world.processes[self.process].pause(self.seconds - WAIT_SECONDS)
            _change(world, ids, "terminated")

        _at_next_launch(world, 1, self.seconds, strike)


@dataclass(frozen=True, slots=True)
class LaunchContested(Fault):
    """The answer of a call that starts several instances is lost, EC2 takes no further call, lists the instances one
    after the other, and one launcher gets its answers later than the others."""

    kind: ClassVar[str] = "launch-contested"
    process: str
    lag_seconds: float
    delay_seconds: float
    seconds: float
    seed: int

    @property
    def text(self) -> str:
        return (
            f"a {CALL} gets no answer, the next are forbidden, its instances are listed up to "
            f"{self.lag_seconds} s late, and {self.process} is {self.delay_seconds} s behind, within {self.seconds} s"
        )

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        lag, delay = round(random.uniform(2.5, 5.0), 1), round(random.uniform(0.5, 2.0), 2)
        seconds = span.seconds(random, WAIT_SECONDS + 20.0, WAIT_SECONDS + 30.0)
        process = random.choice(of_service(LAUNCHER, processes))
        return cls(span.begin, process, lag, delay, seconds, random.randrange(LARGEST_SEED))

    async def apply(self, world: FaultyWorld) -> None:
        def strike(_: list[str]) -> None:
            seconds = self.seconds - WAIT_SECONDS
            _forbid(world, seconds)
            lags = dict.fromkeys(LAGS, self.lag_seconds)
            world.aws.control("settings", {**lags, "describeLagSeed": self.seed})
            later(seconds, world.aws.control, "settings", dict.fromkeys(LAGS, 0))
            world.network.latency(self.process, "aws", self.delay_seconds, seconds)

        lost = {"action": CALL, "count": LOST_ANSWERS, "status": 0, "mode": "after"}
        world.aws.control("faults", lost)
        _at_next_launch(world, 2, self.seconds, strike)


@dataclass(frozen=True, slots=True)
class LaunchUnseen(Fault):
    """EC2 lists every instance as late as it may, and those that start meanwhile do not become nodes: nothing shows
    that they run."""

    kind: ClassVar[str] = "launch-unseen"
    seconds: float

    @property
    def text(self) -> str:
        return (
            f"EC2 lists instances {UNSEEN_SECONDS:g} s late for {self.seconds} s, and those that "
            f"start in the first {self._joinless_seconds:g} s never become nodes"
        )

    @property
    def _joinless_seconds(self) -> float:
        return round(max(0.0, self.seconds - UNSEEN_SECONDS), 1)

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(*long_one(random, span, UNSEEN_SECONDS + 10.0, UNSEEN_SECONDS + 25.0))

    async def apply(self, world: FaultyWorld) -> None:
        lags = dict.fromkeys(LAGS, UNSEEN_SECONDS)
        world.aws.control("settings", {**lags, "describeLagSeed": None})
        later(self.seconds, world.aws.control, "settings", dict.fromkeys(LAGS, 0))
        world.cluster.never_join(self._joinless_seconds)


def _launchers(world: FaultyWorld) -> list[str]:
    return [
        name for name, one in world.processes.items() if name.startswith(LAUNCHER) and one.alive
    ]


def _change(world: FaultyWorld, ids: list[str], state: str) -> None:
    change = {"kind": "state-change", "state": state, "instanceIds": ids}
    world.aws.control("interruptions", change)


def _forbid(world: FaultyWorld, seconds: float) -> None:
    which = {"action": CALL, "percent": 100.0, "seconds": seconds}
    world.aws.control("faults", {**FORBIDDEN, **which})


def _at_next_launch(
    world: FaultyWorld, least: int, seconds: float, act: Callable[[list[str]], object]
) -> None:
    """Call ``act`` once with the ids of the instances of the next call that starts ``least`` of them or more, if that
    is within WAIT_SECONDS. ``seconds``: of the whole fault, which may be shorter."""
    armed, ids = [seconds > WAIT_SECONDS], list[str]()

    def strike() -> None:
        if armed[0] and len(ids) >= least:
            armed[0] = False
            act(list(ids))

    def look(event: Any) -> None:
        if not armed[0]:
            return
        if event.kind == "aws" and event.fields["action"] == CALL:
            ids.clear()
            later(STRIKE_SECONDS, strike)
        elif event.kind == "instance" and event.fields["state"] == "pending":
            ids.append(str(event.fields["id"]))

    def disarm() -> None:
        armed[0] = False

    world.trace.observe(look)
    later(WAIT_SECONDS, disarm)
