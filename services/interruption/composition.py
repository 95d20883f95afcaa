"""Wires what acts on notices, whichever source they come from: backlog, worker, actions, notifier and webhook."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.interruption.actions.machine_actions import MachineActions
from services.interruption.actions.notifier import Notifier
from services.interruption.actions.webhook import Webhook
from services.interruption.actions.worker import Worker
from services.interruption.directory import InstanceLookup
from services.interruption.notices.backlog import Backlog
from services.interruption.notices.notice import Notice
from shared.kube.machines import Machines
from shared.kube.node_taints import NodeTaints
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from shared.runtime.environment import Environment
from shared.runtime.services import Loop
from shared.settings import InterruptionSettings


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
        unavailable = UnavailableOfferings(env.bus.redis, env.bus.prefix, env.clock)
        notifier = Notifier(env.settings, env.bus, unavailable, env.clock)
        machines, nodes = Machines(env.kube), NodeTaints(env.kube)
        actions = MachineActions(env, machines, nodes, directory, notifier, webhook)
        backlog = Backlog()
        worker = Worker(backlog, directory, actions, env.clock, env.metrics, take_lifecycle)
        return cls(backlog, worker, notifier, webhook)

    def loops(self) -> list[Loop]:
        """The loops that run them."""
        clock = self.notifier.clock
        return [
            Loop("notices", self.worker.run, progress=lambda: self.worker.last_progress),
            Loop(
                "notifier",
                self.notifier.run,
                progress=lambda: self.notifier.last_progress or clock.monotonic(),
            ),
            Loop(
                "webhook",
                self.webhook.run,
                progress=lambda: self.webhook.last_progress or clock.monotonic(),
            ),
        ]

    def status(self) -> dict[str, object]:
        """Their part of the status page."""
        return {
            "waiting": len(self.backlog),
            "expired": self.backlog.expired,
            "handled": {kind.value: count for kind, count in self.worker.handled.items()},
            "failed": self.worker.failed,
            "deleted": self.worker.actions.deleted,
            "webhook": {"posted": self.webhook.posted, "dropped": self.webhook.dropped},
        }
