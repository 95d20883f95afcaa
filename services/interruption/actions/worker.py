"""Acts on notices: Kubernetes first, then the source hears that its message is done with (INT-16).

That order makes it safe: a notice whose handling failed, or whose handler was killed, comes again, and a second
handling changes nothing. Many notices are in hand at once; two about one machine delete it once (INT-21).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from services.interruption.actions.action import Action, action_for
from services.interruption.actions.machine_actions import Deeds
from services.interruption.directory import Directory
from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.notice import Notice, NoticeKind
from services.interruption.self_managed_nodes.lifecycle_hooks import Hooks
from services.interruption.self_managed_nodes.own_node import OwnNode
from shared.clock import Clock
from shared.concurrency.waiting import run_until
from shared.errors import DovetailError
from shared.log import get_logger
from shared.metrics import Metrics

log = get_logger(__name__)

AT_ONCE = 64
"""Notices in hand, and calls to the API server."""


@dataclass
class Worker:
    """Takes notices from the backlog and acts on each."""

    backlog: Backlog
    directory: Directory | OwnNode
    deeds: Deeds
    clock: Clock
    metrics: Metrics
    hooks: Hooks | None = None
    """For nodes that are not ours."""
    handled: Counter[str] = field(default_factory=Counter)
    """Notices by kind."""
    failed: int = 0
    """Handlings that failed; their notices come again."""
    _calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By instance, while somebody holds or awaits it."""
    _moved: float = 0.0

    @property
    def last_progress(self) -> float:
        """Monotonic time of the last notice that was taken or handled; with none waiting, now."""
        return self._moved if len(self.backlog) else self.clock.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Handle what comes until ``stop``; what is in hand then is brought to its end."""
        slots = asyncio.Semaphore(AT_ONCE)
        self._moved = self.clock.monotonic()
        async with asyncio.TaskGroup() as group:
            await run_until(stop, self._dispatch(group, slots))

    async def _dispatch(self, group: asyncio.TaskGroup, slots: asyncio.Semaphore) -> None:
        while True:
            await slots.acquire()
            entry = await self.backlog.take(self.clock.monotonic)
            self._moved = self.clock.monotonic()
            task = group.create_task(self.work(entry))
            task.add_done_callback(lambda _: slots.release())

    async def work(self, entry: Entry) -> None:
        """Handle one entry and tell its source; a failure is logged and the source gives it again."""
        notice = entry.notice
        try:
            await self.handle(notice)
        except DovetailError as error:
            self.failed += 1
            log.warning(
                "notice not handled, it comes again",
                kind=notice.kind,
                id=notice.id,
                error=error.message,
            )
        except Exception:  # one notice that we cannot handle must not stop the others
            self.failed += 1
            log.exception("notice not handled", kind=notice.kind, id=notice.id)
        else:
            entry.done()
        self._moved = self.clock.monotonic()

    async def handle(self, notice: Notice) -> None:
        """Act on one notice. Raises the first failure, after the other instances had their turn."""
        if notice.kind == NoticeKind.LIFECYCLE and self.hooks is not None:
            await self.hooks.take(notice)
        action = action_for(notice.kind)
        if action is not None:
            each = (self._instance(name, action, notice) for name in notice.instances)
            failures = await asyncio.gather(*each, return_exceptions=True)
            for failure in failures:
                if isinstance(failure, BaseException):
                    raise failure
        self.handled[notice.kind] += 1
        if notice.at is not None:
            late = max(0.0, self.clock.now() - notice.at)
            self.metrics.interruption_seconds.observe(late)  # INT-24

    async def _instance(self, instance: str, action: Action, notice: Notice) -> None:
        """One notice at a time about one instance: a cancellation must find what its event did."""
        turn = self._turns.setdefault(instance, asyncio.Lock())
        async with turn, self._calls:
            machine = await self.directory.machine(instance)
            if machine is not None:
                await self.deeds.act(machine, instance, action, notice)
