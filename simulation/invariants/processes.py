"""Processes: nothing fails unseen, and readiness tells the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

CUT_OFF_SECONDS = 200.0
"""So long after it was cut off from Redis or the API server a service says that it is not ready."""
LOOK_SECONDS = 5.0
LOOP_FAILED, UNEXPECTEDLY = "loop failed", " unexpectedly"
"""How the runtime's log line begins, which ends with the name of the loop."""
RESTART_SECONDS = 40.0
"""A failed loop is started again after 30 s at the latest."""
LATE_SECONDS = 2 * LOOK_SECONDS
"""Beyond the time without progress that a loop allows itself."""
NEEDS: Mapping[str, tuple[str, ...]] = {
    "watcher": ("api", "redis"),
    "scheduler": ("api", "redis"),
    "launcher": ("api", "redis"),
    "terminator": ("api", "redis"),
    "interruption": ("api", "redis"),
}
"""What a service cannot work without for long. AWS refuses and throttles at times, which is no reason to be unready."""


@dataclass
class NothingFailsUnseen:
    """R8, F31: no task, callback or generator ends with an exception that nobody handles.

    A service logs what its loops raise and starts them again; an exception that reaches the event loop was expected by
    nobody. Tasks of a killed process are never resumed and say nothing.
    """

    name: str = "no task ends with an exception that nobody sees"
    kinds: tuple[str, ...] = ("process", "api", "redis", "aws")
    _seen: list[str] = field(default_factory=list)
    _attached: bool = False

    def check(self, event: Event, world: World) -> list[str]:
        """Everything that reached the event loop since the last event."""
        if not self._attached:
            self._attached = True
            world.loop.set_exception_handler(self._note)
        found, self._seen = self._seen, []
        return found

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            return  # "Task was destroyed but it is pending": its process was killed.
        self._seen.append(f"{context.get('message')}: {type(error).__name__}: {error}")


@dataclass
class NoProcessDies:
    """R8, F29: a process ends when it is killed or asked to, or when it cannot reach what it needs at its start."""

    name: str = "no process ends by itself"
    kinds: tuple[str, ...] = ("process",)

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a process ends."""
        what = str(event.fields.get("what") or "")
        if not what.startswith("exit with an error") or "ConfigurationError" in what:
            return []
        return [f"{event.fields.get('name')}: {what}"]


@dataclass
class UnreadyWhenCutOff:
    """R8: a process that the network cut off from what it needs is not ready for long."""

    name: str = "readiness tells the truth about lost connections"
    kinds: tuple[str, ...] = ("api", "redis", "aws", "process")
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    """Process and server -> since when nothing passes between them."""
    _next: float = 0.0

    def check(self, event: Event, world: World) -> list[str]:
        """Judged every few seconds."""
        if event.at < self._next:
            return []
        self._next = event.at + LOOK_SECONDS
        found = []
        for name, process in world.processes.items():
            for server in NEEDS[name.rpartition("-")[0]]:
                cut = world.network.links.blocked_until(name, server) > world.loop.time()
                if not cut or not process.alive or process.owner.paused:
                    self._since.pop((name, server), None)
                    continue
                since = self._since.setdefault((name, server), event.at)
                if event.at - since > CUT_OFF_SECONDS and not process.unready():
                    found.append(
                        f"{name} is ready although it has not reached {server} for {event.at - since:.0f} s"
                    )
        return found


@dataclass
class LoopsAreHonest:
    """R8, F29: a loop that failed is started again, and a service is not ready for long after one of its loops ended or
    makes no progress."""

    name: str = "a service whose loop is dead is not ready"
    kinds: tuple[str, ...] = ("api", "redis", "aws", "process", "failure")
    _failed: dict[tuple[str, str], float] = field(default_factory=dict)
    """Process and loop -> when the loop failed and was not started again yet."""
    _missing: dict[tuple[str, str], float] = field(default_factory=dict)
    """Process and loop -> since when nothing supervises the loop."""
    _next: float = 0.0

    def check(self, event: Event, world: World) -> list[str]:
        """Judged every few seconds."""
        what = str(event.fields.get("what"))
        if event.kind == "failure" and what.startswith(LOOP_FAILED):
            # A name may have several words: `capacity reservations` is not the loop `reservations`.
            failed = what.removeprefix(LOOP_FAILED).removeprefix(UNEXPECTEDLY).strip()
            self._failed[str(event.fields["name"]), failed] = world.loop.time()
        if event.at < self._next:
            return []
        self._next = event.at + LOOK_SECONDS
        found = []
        for name, process in world.processes.items():
            if not process.alive or process.owner.paused or not process.services:
                self._forget(name)
                continue
            supervised = process.supervisors()
            for loop in process.loops():
                if why := self._why_dead(name, loop, loop.name in supervised, world.loop.time()):
                    found += [] if process.unready() else [f"{name} is ready although {why}"]
        return found

    def _why_dead(self, name: str, loop: Any, supervised: bool, now: float) -> str:
        """Why the loop does no work; empty for one that does, or that may still say so in time."""
        key, patience = (name, loop.name), loop.late_seconds + LATE_SECONDS
        if loop.started > self._failed.get(key, inf):
            del self._failed[key]
        failed = self._failed.get(key, inf)
        if now - failed > RESTART_SECONDS:
            return f"its loop {loop.name} failed {now - failed:.0f} s ago and was not started again"
        missing = None if supervised else self._missing.setdefault(key, now)
        if missing is None:
            self._missing.pop(key, None)
        elif now - missing > patience:
            return f"its loop {loop.name} ended {now - missing:.0f} s ago"
        last = loop.latest()
        if now - last > patience:
            return f"its loop {loop.name} made no progress for {now - last:.0f} s"
        return ""

    def _forget(self, name: str) -> None:
        for known in (self._failed, self._missing):
            for key in [key for key in known if key[0] == name]:
                del known[key]


@dataclass
class EverybodyIsReady:
    """R8, OPS-10: when nothing is wrong any more every process runs and is ready."""

    name: str = "every process is ready"

    def check(self, world: World) -> list[str]:
        """Processes that are not ready, with their reasons."""
        return [
            f"{name} is not ready: {'; '.join(reasons)}"
            for name, process in world.processes.items()
            if (reasons := process.unready())
        ]


@dataclass
class FewTasks:
    """I12, F32: the number of tasks of a process is bounded, however long it ran."""

    name: str = "tasks of a process are bounded"
    most: int = 500

    def check(self, world: World) -> list[str]:
        """Processes with too many unfinished tasks."""
        counts = {name: len(process.unfinished()) for name, process in world.processes.items()}
        return [
            f"{name} has {count} unfinished tasks, at most {self.most}"
            for name, count in counts.items()
            if count > self.most
        ]
