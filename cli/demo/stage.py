"""The state of a running scenario: connections, the last snapshot, and waits with a deadline.

Every wait takes four snapshots per second and shows each one. A wait beyond the scenario's deadline raises StoryFailed.

The API server or the emulator may fail for a short time (a crash test restarts them): a failed snapshot is skipped, and
the wait continues until its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from cli.cloud.emulator import Emulator, InstanceView
from cli.demo.display import Display
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import NodeView, Observer, Snapshot, changes
from cli.demo.timeline import Timeline
from cli.stack.environment import Environment
from shared.errors import DovetailError, TransientError
from shared.kube.client import Kube

if TYPE_CHECKING:
    from cli.demo.scenarios import Scenario

POLL_SECONDS = 0.25
Answer = TypeVar("Answer")


class StoryFailed(DovetailError):
    """The scenario failed. The message names what is missing."""


@dataclass(frozen=True)
class Check:
    """One expected result."""

    name: str
    ok: bool
    detail: str


@dataclass
class Stage:
    """One running scenario."""

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
    """Every instance seen, in its last state: EC2 no longer lists those that terminated some time ago."""

    @property
    def terminated(self) -> int:
        """Number of launched instances that have terminated."""
        live = {instance.instance_id for instance in self.snapshot.live_instances}
        return len(self.launched.keys() - live)

    def check(self, name: str, ok: bool, detail: str) -> None:
        """Record one expected result. A failed check does not stop the scenario."""
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

    async def observe(self) -> Snapshot:
        """Take a snapshot, add its changes to the timeline and show it. Raises TransientError."""
        fresh = await self.observer.take()
        for event, subject in changes(self.snapshot, fresh):
            self.note(event, subject)
        self.snapshot = fresh
        self.launched |= {instance.instance_id: instance for instance in fresh.instances}
        self.display.show(self.timeline, fresh)
        return fresh

    async def until_true(self, ask: Callable[[], Awaitable[Answer]], missing: str) -> Answer:
        """Wait until ``ask`` returns a true value, and return it. Raises StoryFailed at the deadline."""
        while True:
            with suppress(TransientError):
                if answer := await ask():
                    return answer
            await self.until(lambda _: True, missing)
            self._check_deadline(missing)
            await asyncio.sleep(POLL_SECONDS)

    async def until(self, reached: Callable[[Snapshot], bool], missing: str) -> Snapshot:
        """Take snapshots until ``reached``. Raises StoryFailed with ``missing`` at the scenario's deadline."""
        problem = ""
        while True:
            try:
                snapshot = await self.observe()
                problem = ""
                if reached(snapshot):
                    return snapshot
            except TransientError as error:
                problem = f" ({error.message})"
            self._check_deadline(missing, problem)
            await asyncio.sleep(POLL_SECONDS)

    def _check_deadline(self, missing: str, problem: str = "") -> None:
        limit = self.scenario.timeout_seconds
        if self.timeline.elapsed() > limit:
            raise StoryFailed(f"{missing} after {limit:.0f} s{problem}")
