"""Owners: which simulated process a callback, a task or a connection belongs to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


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


CURRENT: ContextVar[Owner | None] = ContextVar("owner", default=None)
"""None: the simulated world itself."""
