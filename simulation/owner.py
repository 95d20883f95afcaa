"""Owners: which simulated process a callback, a task or a connection belongs to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

FEWEST_LOOKED_AT = 64
"""With fewer tasks those that ended are not looked for."""


@dataclass(eq=False)
class Owner:
    """One start of one simulated process, or a server of the simulated world.

    ``ready`` holds the callbacks that may run now, in the order in which they were scheduled: asyncio guarantees this
    order within one process. Between processes the loop chooses by the seed.
    """

    name: str
    number: int = 0
    """How many starts of the process came before."""
    ready: deque[asyncio.Handle] = field(default_factory=deque)
    alive: bool = True
    paused: bool = False
    skew_seconds: float = 0.0
    """How far the wall clock of the process is ahead."""
    budget: int | None = None
    """Callbacks until ``exhausted`` is called; None: no limit."""
    exhausted: Callable[[], None] | None = None
    signals: dict[int, Callable[[], object]] = field(default_factory=dict)
    kept: Sequence[asyncio.Task[Any]] = ()
    """The tasks of a killed process: a task that is collected would run its ``finally`` blocks."""
    _started: list[ref[asyncio.Task[Any]]] = field(default_factory=list)
    """Its tasks in the order of their start; those that ended leave now and then."""
    _most_started: int = FEWEST_LOOKED_AT

    def started(self, task: asyncio.Task[Any]) -> None:
        """Remember a new task of this owner."""
        if len(self._started) >= self._most_started:
            self._most_started = max(FEWEST_LOOKED_AT, 2 * len(self.unfinished()))
        self._started.append(ref(task))

    def unfinished(self) -> list[asyncio.Task[Any]]:
        """Its tasks that have not ended, in the order of their start."""
        # asyncio.all_tasks looks at the tasks of all owners, which takes a hundredth of a run's time.
        known = [(one, one()) for one in self._started]
        left = [(one, task) for one, task in known if task is not None and not task.done()]
        self._started = [one for one, _ in left]
        return [task for _, task in left]


CURRENT: ContextVar[Owner | None] = ContextVar("owner", default=None)
"""None: the simulated world itself."""
