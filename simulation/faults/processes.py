"""Faults of our own processes: killed, terminated, stopped for a while, with a wrong clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Self

from simulation.faults.fault import Fault, FaultyWorld, Process, Span, later, of_service

CALLBACKS_BEFORE_KILL = 400
"""A kill strikes after at most that many callbacks of the process, so that every await may be its last."""
CALLBACKS_OF_A_COMMAND = 100
"""A command is begun within so many callbacks of its process."""
SCHEDULER = "scheduler"
WAIT_SECONDS = 10.0
"""So long a fault waits for the moment at which it strikes."""
IDLE_SECONDS = 5.0
"""A process that runs fewer callbacks than drawn is killed after this time."""
LEASE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Kill(Fault):
    """SIGKILL at any await: tasks vanish, connections close, nothing is cleaned up. The kubelet starts it again."""

    kind: ClassVar[str] = "kill"
    process: str
    callbacks: int

    @property
    def text(self) -> str:
        return f"{self.process} is killed after {self.callbacks} more callbacks"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, random.choice(processes), random.randint(1, CALLBACKS_BEFORE_KILL))

    async def apply(self, world: FaultyWorld) -> None:
        process = world.processes[self.process]
        if not process.alive:
            return
        starts = process.starts
        process.kill_after(self.callbacks)
        later(IDLE_SECONDS, _kill_same, process, starts)


@dataclass(frozen=True, slots=True)
class LauncherKilled(Kill):
    """As ``kill``, of a launcher when a machine is made: until its launch the world goes on."""

    kind: ClassVar[str] = "launcher-killed"

    @property
    def text(self) -> str:
        return f"{self.process} is killed {self.callbacks} callbacks after a machine is made, within {WAIT_SECONDS:g} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        callbacks = random.randint(1, CALLBACKS_BEFORE_KILL)
        return cls(span.begin, random.choice(of_service("launcher", processes)), callbacks)

    async def apply(self, world: FaultyWorld) -> None:
        def kill() -> None:
            process = world.processes[self.process]
            if process.alive:
                process.kill_after(self.callbacks)

        _at_next_write(world, ("create",), WAIT_SECONDS, kill)


@dataclass(frozen=True, slots=True)
class TerminatorKilled(Kill):
    """As ``kill``, of a terminator: the next one finds by a list what it has to end."""

    kind: ClassVar[str] = "terminator-killed"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        callbacks = random.randint(1, CALLBACKS_BEFORE_KILL)
        return cls(span.begin, random.choice(of_service("terminator", processes)), callbacks)


@dataclass(frozen=True, slots=True)
class KilledInCommand(Fault):
    """The scheduler is killed while it begins its next command: the next scheduler finds a part of that."""

    kind: ClassVar[str] = "killed-in-command"
    callbacks: int
    seconds: float

    @property
    def text(self) -> str:
        return f"a scheduler is killed {self.callbacks} callbacks after it begins a command, within {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        callbacks = random.randint(1, CALLBACKS_OF_A_COMMAND)
        return cls(span.begin, callbacks, span.seconds(random, 10.0, 30.0))

    async def apply(self, world: FaultyWorld) -> None:
        def kill() -> None:
            for name, process in world.processes.items():
                if name.startswith(SCHEDULER) and process.alive:
                    process.kill_after(self.callbacks)

        # The first that a scheduler changes for a command is the record on its machines, beside their status.
        _at_next_write(world, ("patch", "update"), self.seconds, kill)


def _at_next_write(
    world: FaultyWorld, verbs: Sequence[str], seconds: float, act: Callable[[], object]
) -> None:
    """Call ``act`` once, when a scheduler writes a machine in this way within ``seconds``."""
    armed = [True]

    def look(event: Any) -> None:
        fields = event.fields
        if not armed or event.kind != "api" or fields.get("verb") not in verbs:
            return
        resource = str(fields.get("resource")).partition(".")[0]
        if resource in ("machines", "nodeclaims") and SCHEDULER in str(fields.get("by")):
            armed.clear()
            later(0.0, act)

    world.trace.observe(look)
    later(seconds, armed.clear)


@dataclass(frozen=True, slots=True)
class Terminate(Fault):
    """SIGTERM, as a rollout sends it, and SIGKILL after the grace period. The kubelet starts it again."""

    kind: ClassVar[str] = "terminate"
    process: str

    @property
    def text(self) -> str:
        return f"{self.process} gets SIGTERM"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, random.choice(processes))

    async def apply(self, world: FaultyWorld) -> None:
        world.processes[self.process].terminate()


@dataclass(frozen=True, slots=True)
class Pause(Fault):
    """SIGSTOP and SIGCONT: often for longer than a Lease lasts; the process continues in the middle of a call."""

    kind: ClassVar[str] = "pause"
    process: str
    seconds: float

    @property
    def text(self) -> str:
        return f"{self.process} is stopped for {self.seconds} s and continues"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        process = random.choice(processes)
        return cls(span.begin, process, span.seconds(random, 2.0, 4 * LEASE_SECONDS))

    async def apply(self, world: FaultyWorld) -> None:
        world.processes[self.process].pause(self.seconds)


@dataclass(frozen=True, slots=True)
class LeaderPaused(Fault):
    """The scheduler that leads is stopped while it makes machines, for longer than its Lease lasts: another replica has
    taken over when it continues."""

    kind: ClassVar[str] = "leader-paused"
    seconds: float

    @property
    def text(self) -> str:
        return f"the scheduler that leads is stopped for {self.seconds} s when it makes a machine"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(*long_one(random, span, LEASE_SECONDS + WAIT_SECONDS + 3.0, 3 * LEASE_SECONDS))

    async def apply(self, world: FaultyWorld) -> None:
        def pause() -> None:
            for name, process in world.processes.items():
                if name.startswith(SCHEDULER) and process.status().get("leading"):
                    process.pause(self.seconds - WAIT_SECONDS)

        _at_next_write(world, ("create",), WAIT_SECONDS, pause)


@dataclass(frozen=True, slots=True)
class WatcherStopped(Pause):
    """Every watcher is stopped for longer than a mirror is believed that nobody writes."""

    kind: ClassVar[str] = "watcher-stopped"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        begin, seconds = long_one(random, span, 80.0, 115.0)
        return cls(begin, random.choice(of_service("watcher", processes)), seconds)


@dataclass(frozen=True, slots=True)
class ClockSkew(Fault):
    """The wall clock of one process is some seconds off."""

    kind: ClassVar[str] = "clock-skew"
    process: str
    by_seconds: float
    seconds: float

    @property
    def text(self) -> str:
        return f"the clock of {self.process} is {self.by_seconds:+g} s off for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        by = random.choice((-5.0, 5.0))
        return cls(span.begin, random.choice(processes), by, span.seconds(random, 20.0, 180.0))

    async def apply(self, world: FaultyWorld) -> None:
        process = world.processes[self.process]
        process.skew(self.by_seconds)
        later(self.seconds, process.skew, 0.0)


@dataclass(frozen=True, slots=True)
class ClockJump(ClockSkew):
    """The wall clock of one process jumps by an hour and back."""

    kind: ClassVar[str] = "clock-jump"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        by = random.choice((-3600.0, 3600.0))
        return cls(span.begin, random.choice(processes), by, span.seconds(random, 5.0, 120.0))


@dataclass(frozen=True, slots=True)
class LoopEnds(Fault):
    """One supervised loop of a process ends without an error, as by a cancellation that nobody meant; the process is
    restarted after a while. ``choice`` from 0 to 1 chooses the loop."""

    kind: ClassVar[str] = "loop-ends"
    process: str
    choice: float
    seconds: float

    @property
    def text(self) -> str:
        return f"a loop of {self.process} ends, and the process is restarted after {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        process, choice = random.choice(processes), round(random.random(), 6)
        return cls(span.begin, process, choice, span.seconds(random, 60.0, 240.0))

    async def apply(self, world: FaultyWorld) -> None:
        process = world.processes[self.process]
        process.end_loop(self.choice)
        later(self.seconds, _kill_same, process, process.starts)


def long_one(random: Random, span: Span, shortest: float, longest: float) -> tuple[float, float]:
    """Begin and duration: a fault that would end too late begins earlier, because a short one is another fault."""
    seconds = round(random.uniform(shortest, longest), 1)
    begin = round(max(0.0, min(span.begin, span.latest_end - seconds)), 3)
    return begin, round(min(seconds, span.latest_end - begin), 1)


def _kill_same(process: Process, starts: int) -> None:
    """Kill the process unless it ended since and was started again."""
    if process.starts == starts:
        process.kill()
