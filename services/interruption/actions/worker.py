"""Acts on notices: first the writes to Kubernetes, then the source may delete its message.

In that order a notice whose handling failed, or whose process was killed, comes again, and handling it a second time
changes nothing. Many notices are handled at once; two about one machine delete it once (INT-21). ``NoticeHandling``
wires all that acts on notices, whichever source they come from.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from services.interruption.actions.machine_actions import MachineActions
from services.interruption.actions.notifier import Notifier
from services.interruption.actions.policy import Action, action_for
from services.interruption.actions.webhook import Webhook
from services.interruption.directory import InstanceLookup
from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.notice import Notice, NoticeKind
from shared.concurrency.clock import Clock
from shared.concurrency.parallel import in_parallel
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import run_until
from shared.errors import DovetailError
from shared.kube.machines import Machines
from shared.kube.node_taints import NodeTaints
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.runtime.environment import Environment
from shared.runtime.services import Loop
from shared.settings import InterruptionSettings

log = get_logger(__name__)

AT_ONCE = 64
"""Notices that are handled at the same time, and also calls to the API server."""


@dataclass
class Worker:
    """Takes notices from the backlog and acts on each."""

    backlog: Backlog
    directory: InstanceLookup
    actions: MachineActions
    clock: Clock
    metrics: Metrics
    take_lifecycle: Callable[[Notice], Awaitable[None]] | None = None
    """Handles lifecycle hooks; they are about nodes that no pool owns."""
    deletes_unknown: bool = True
    """Whether the message about instances that nobody here knows is deleted; False: another reader may want it."""
    handled: Counter[NoticeKind] = field(default_factory=Counter)
    """Notices by kind."""
    failed: int = 0
    """Handlings that failed; their notices come again."""
    _calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By instance, while a task holds or awaits it."""
    _moved: float = 0.0

    @property
    def last_progress(self) -> float:
        """Monotonic time of the last notice that was taken or handled; with none waiting, now."""
        return self._moved if len(self.backlog) else self.clock.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Handle what comes until ``stop``; what is being handled then is finished."""
        slots = asyncio.Semaphore(AT_ONCE)
        self._moved = self.clock.monotonic()
        async with TaskGroup() as group:
            await run_until(stop, self._dispatch(group, slots))

    async def _dispatch(self, group: TaskGroup, slots: asyncio.Semaphore) -> None:
        while True:
            await slots.acquire()
            entry = await self.backlog.take(self.clock.monotonic)
            self._moved = self.clock.monotonic()
            task = group.create_task(self.work(entry))
            task.add_done_callback(lambda _: slots.release())

    async def work(self, entry: Entry) -> None:
        """Handle one entry and call its ``done``, or, after a failure, which is logged, its ``again``."""
        notice, end = entry.notice, entry.again
        try:
            known = await self.handle(notice)
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
            # Only now may the source delete its message: until here a kill makes it come again.
            if known or self.deletes_unknown:
                end = entry.done
        end()
        self._moved = self.clock.monotonic()

    async def handle(self, notice: Notice) -> bool:
        """Act on one notice, and say whether one of its instances is known here; True for one that names none. Raises
        the first failure, after all its instances were handled."""
        ours: set[str] = set()
        if notice.kind == NoticeKind.LIFECYCLE and self.take_lifecycle is not None:
            await self.take_lifecycle(notice)
        action = action_for(notice.kind)
        if action is not None:
            each = (self._instance(name, action, notice, ours) for name in notice.instances)
            await in_parallel(each, most=AT_ONCE)
        self.handled[notice.kind] += 1
        if notice.at is not None:
            late = max(0.0, self.clock.now() - notice.at)
            self.metrics.interruption_seconds.observe(late)  # INT-24
        return action is None or not notice.instances or bool(ours)

    async def _instance(
        self, instance: str, action: Action, notice: Notice, ours: set[str]
    ) -> None:
        """One notice at a time about one instance: "the event is over" must find what the event's own notice wrote.

        An instance that a machine or a node of the cluster has is added to ``ours``.
        """
        turn = self._turns.setdefault(instance, asyncio.Lock())
        async with turn, self._calls:
            machine = await self.directory.machine(instance)
            if machine is not None or self.directory.node(instance) is not None:
                ours.add(instance)
            if machine is not None:
                await self.actions.act(machine, instance, action, notice)


@dataclass
class NoticeHandling:
    """The parts, their loops and what the status page shows of them."""

    backlog: Backlog
    worker: Worker
    notifier: Notifier
    webhook: Webhook

    @classmethod
    def of(
        cls,
        env: Environment[InterruptionSettings],
        directory: InstanceLookup,
        webhook: Webhook,
        take_lifecycle: Callable[[Notice], Awaitable[None]] | None = None,
    ) -> NoticeHandling:
        """For the instances that ``directory`` knows. ``take_lifecycle`` gets the notices of lifecycle hooks."""
        unavailable = UnavailableOfferings(env.bus.redis, env.bus.prefix)
        history = ShortageHistory(env.bus.redis, env.bus.prefix, env.clock, env.settings)
        notifier = Notifier(env.settings, env.bus, unavailable, env.clock, history)
        machines, nodes = Machines(env.kube), NodeTaints(env.kube)
        actions = MachineActions(env, machines, nodes, directory, notifier, webhook)
        backlog = Backlog()
        worker = Worker(
            backlog,
            directory,
            actions,
            env.clock,
            env.metrics,
            take_lifecycle,
            deletes_unknown=env.settings.delete_sqs_msg_if_node_not_found,
        )
        return cls(backlog, worker, notifier, webhook)

    def loops(self) -> list[Loop]:
        return [
            Loop("notices", self.worker.run, progress=lambda: self.worker.last_progress),
            Loop(
                "notifier", self.notifier.run, progress=lambda: self.notifier.last_progress or None
            ),
            Loop("webhook", self.webhook.run, progress=lambda: self.webhook.last_progress or None),
        ]

    def status(self) -> dict[str, object]:
        return {
            "waiting": len(self.backlog),
            "expired": self.backlog.expired,
            "handled": {kind.value: count for kind, count in self.worker.handled.items()},
            "failed": self.worker.failed,
            "deleted": self.worker.actions.deleted,
            "recent": self.notifier.recent.documents(),
            "webhook": {"posted": self.webhook.posted, "dropped": self.webhook.dropped},
        }
