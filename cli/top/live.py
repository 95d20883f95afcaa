"""The live picture: receives the stream and the report of the shown view, and draws.

It draws when something has changed or a second has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live

from cli.top.cluster.rows import By
from cli.top.records import Message
from cli.top.reports.views import Shown, View, report_of, view_after
from cli.top.state import Lost, Received, received
from cli.top.view import Screen, lines_of
from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause, pause_unless, run_until, woken_by
from shared.errors import DovetailError

TICK_SECONDS = 1.0
"""Ages are shown in seconds."""
FRAME_SECONDS = 0.1
"""The shortest time between two pictures: a terminal behind a slow connection must keep up."""
REPORT_SECONDS = 2.0
"""Between two reads of a report: the console reads its own sources as often."""
Updates = AsyncGenerator[Message | Lost, None]
Fetch = Callable[[View], Awaitable[bytes]]


@dataclass
class Latest:
    """What the reader of the stream and the drawer share."""

    clock: Clock
    known: Received = field(default_factory=Received)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    shown: Shown = field(default_factory=Shown)
    turned: asyncio.Event = field(default_factory=asyncio.Event)
    failure: DovetailError | None = None

    def press(self, keys: bytes) -> None:
        """Apply keys that choose a view."""
        view = view_after(self.shown.view, keys)
        if view != self.shown.view:
            self.shown = Shown(view)
            self.turned.set()
            self.changed.set()

    def take_report(self, shown: Shown) -> None:
        """Show a report, unless its view was left while it was read."""
        if shown.view == self.shown.view:
            self.shown = shown
            self.changed.set()

    def take(self, update: Message | Lost) -> None:
        """Apply one update."""
        self.known = received(self.known, update, self.clock.monotonic())
        self.changed.set()


async def watch(
    latest: Latest, updates: Updates, fetch: Fetch, stop: asyncio.Event, draw: Callable[[], None]
) -> None:
    """Receive and draw until ``stop`` is set. Raises the error with which ``updates`` ends."""
    async with TaskGroup() as tasks:
        tasks.create_task(run_until(stop, _receive(latest, updates, stop)))
        tasks.create_task(run_until(stop, _read_reports(latest, fetch, stop)))
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


async def _read_reports(latest: Latest, fetch: Fetch, stop: asyncio.Event) -> None:
    """Reads the report of the shown view, again and again while it is shown."""
    while not stop.is_set():
        latest.turned.clear()
        if latest.shown.view == "cluster":
            await latest.turned.wait()
            continue
        latest.take_report(await _next_report(latest.shown, fetch))
        await pause_unless(latest.turned, REPORT_SECONDS)


async def _next_report(before: Shown, fetch: Fetch) -> Shown:
    """The report, or the one before it with the reason why there is no newer one."""
    try:
        return Shown(before.view, report_of(before.view, await fetch(before.view)))
    except DovetailError as error:
        return before._replace(problem=error.message)
    except ValueError as error:
        return before._replace(problem=f"the console sends what is not understood ({error})")


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
        lines = lines_of(self._latest.known, screen, self._by, now, self._latest.shown)
        self.live.update(Group(*lines), refresh=True)
