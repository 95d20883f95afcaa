"""Where a story is played: connections, the last snapshot, and waits that have a limit.

Every wait polls snapshots four times a second and shows each one. A wait that takes longer than
the scenario's deadline raises StoryFailed.

What may go wrong: the API server or the emulator may fail for a moment (a crash test restarts
things); a look that fails is skipped and the wait goes on until its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from cli.demo.display import Display
from cli.demo.scenarios import Scenario
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import NodeView, Observer, Snapshot, changes
from cli.demo.timeline import Timeline
from cli.emulator import Emulator, InstanceView
from cli.stack.environment import Environment
from shared.errors import DovetailError, TransientError
from shared.kube.client import Kube

POLL_SECONDS = 0.25
Answer = TypeVar("Answer")


class StoryFailed(DovetailError):
    """The story did not come out. The message names the phase and what is missing."""


@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    name: str
    ok: bool
    detail: str


@dataclass
class Stage:
    """One story in progress."""

    scenario: Scenario
    settings: DemoSettings
    environment: Environment
    kube: Kube
    emulator: Emulator
    observer: Observer
    timeline: Timeline
    display: Display
    snapshot: Snapshot = field(default_factory=Snapshot)
    nodes: tuple[NodeView, ...] = ()
    """The nodes that ran the workload when it was complete."""
    pods: tuple[int, int, int] = (0, 0, 0)
    """Total, running and pending pods when the workload was complete."""
    checks: list[Check] = field(default_factory=list)
    launched: dict[str, InstanceView] = field(default_factory=dict)
    """Every instance ever seen, as it was last: EC2 forgets those that ended a while ago."""

    @property
    def terminated(self) -> int:
        """How many of the launched instances have ended."""
        live = {instance.instance_id for instance in self.snapshot.live_instances}
        return len(self.launched.keys() - live)

    def check(self, name: str, ok: bool, detail: str) -> None:
        """Note one thing that must hold; the story goes on either way."""
        self.checks.append(Check(name, ok, detail))

    def note(self, event: str, subject: str) -> None:
        """Put one event on the timeline and show it."""
        entry = self.timeline.add(event, subject)
        if entry is not None:
            self.display.event(entry)

    @asynccontextmanager
    async def phase(self, title: str) -> AsyncIterator[None]:
        """Show and time one step."""
        phase = self.timeline.begin(title)
        self.display.show(self.timeline, self.snapshot)
        failed = True
        try:
            yield
            failed = False
        finally:
            self.timeline.end(phase, failed=failed)
            self.display.show(self.timeline, self.snapshot)

    async def look(self) -> Snapshot:
        """Take a snapshot, note what changed, show it. Raises TransientError."""
        fresh = await self.observer.look()
        for event, subject in changes(self.snapshot, fresh):
            self.note(event, subject)
        self.snapshot = fresh
        self.launched |= {instance.instance_id: instance for instance in fresh.instances}
        self.display.show(self.timeline, fresh)
        return fresh

    async def until_true(self, ask: Callable[[], Awaitable[Answer]], missing: str) -> Answer:
        """Look on until ``ask`` answers something true; that. Raises StoryFailed like ``until``."""
        while True:
            with suppress(TransientError):
                if answer := await ask():
                    return answer
            await self.until(lambda _: True, missing)
            self._hurry(missing)
            await asyncio.sleep(POLL_SECONDS)

    async def until(self, reached: Callable[[Snapshot], bool], missing: str) -> Snapshot:
        """Look until ``reached``. Raises StoryFailed saying ``missing`` at the scenario's
        deadline.
        """
        trouble = ""
        while True:
            try:
                snapshot = await self.look()
                trouble = ""
                if reached(snapshot):
                    return snapshot
            except TransientError as error:
                trouble = f" ({error.message})"
            self._hurry(missing, trouble)
            await asyncio.sleep(POLL_SECONDS)

    def _hurry(self, missing: str, trouble: str = "") -> None:
        limit = self.scenario.timeout_seconds
        if self.timeline.elapsed() > limit:
            raise StoryFailed(f"{missing} after {limit:.0f} s{trouble}")
