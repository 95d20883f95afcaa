"""Processes: nothing fails unseen, and readiness tells the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

CUT_OFF_SECONDS = 200.0
"""So long after it was cut off from Redis or the API server a service says that it is not ready."""
LOOK_SECONDS = 5.0
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
