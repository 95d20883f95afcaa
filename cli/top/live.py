"""The live picture: receives the stream, and draws when something has changed or a second has passed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live

from cli.top.records import Message
from cli.top.rows import By
from cli.top.state import Lost, Received, received
from cli.top.view import Screen, lines_of
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause, pause_unless, run_until, woken_by
from shared.errors import DovetailError

TICK_SECONDS = 1.0
"""Ages are shown in seconds."""
FRAME_SECONDS = 0.1
"""The shortest time between two pictures: a terminal behind a slow connection must keep up."""
Updates = AsyncGenerator[Message | Lost, None]


@dataclass
class Latest:
    """What the reader of the stream and the drawer share."""

    clock: Clock
    known: Received = field(default_factory=Received)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: DovetailError | None = None

    def take(self, update: Message | Lost) -> None:
        """Apply one update."""
        self.known = received(self.known, update, self.clock.monotonic())
        self.changed.set()


async def watch(
    latest: Latest, updates: Updates, stop: asyncio.Event, draw: Callable[[], None]
) -> None:
    """Receive and draw until ``stop`` is set. Raises the error with which ``updates`` ends."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_until(stop, _receive(latest, updates, stop)))
        async with woken_by(stop, latest.changed):
            while not stop.is_set():
                latest.changed.clear()
                draw()
                await pause(stop, FRAME_SECONDS)
                if not stop.is_set():
                    await pause_unless(latest.changed, TICK_SECONDS)
    if latest.failure is not None:
        raise latest.failure


async def _receive(latest: Latest, updates: Updates, stop: asyncio.Event) -> None:
    """An expected error is kept, not raised: the group would wrap it, and the terminal must be restored first."""
    try:
        async with aclosing(updates) as coming:
            async for update in coming:
                latest.take(update)
    except DovetailError as error:
        latest.failure = error
    finally:
        stop.set()


class Drawing:
    """Draws the latest state on the whole terminal, within the context of ``live``."""

    def __init__(self, console: Console, latest: Latest, by: By) -> None:
        self._console, self._latest, self._by = console, latest, by
        # Without a thread: it would draw between two changes of the latest state.
        self.live = Live(console=console, screen=True, auto_refresh=False)

    def draw(self) -> None:
        """The picture of this moment, in the terminal's size of this moment."""
        screen = Screen(*self._console.size, live=True)
        now = self._latest.clock.monotonic()
        lines = lines_of(self._latest.known, screen, self._by, now)
        self.live.update(Group(*lines), refresh=True)
