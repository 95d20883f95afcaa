"""What acts on notices, whichever source they come from: worker, deeds, bells and webhook, put together."""

from __future__ import annotations

from dataclasses import dataclass

from services.interruption.actions.machine_actions import Deeds
from services.interruption.actions.notifier import Bells
from services.interruption.actions.webhook import Webhook
from services.interruption.actions.worker import Worker
from services.interruption.directory import Directory
from services.interruption.notices.backlog import Backlog
from services.interruption.self_managed_nodes.hook_annotations import HookMarks
from services.interruption.self_managed_nodes.lifecycle_hooks import HookCalls, Hooks
from services.interruption.self_managed_nodes.own_node import OwnNode
from shared.environment import Environment
from shared.kube.machines import Machines
from shared.kube.node_marks import NodeMarks
from shared.mirror.offerings import UnavailableOfferings
from shared.runtime import Loop
from shared.settings import InterruptionSettings


@dataclass
class Hands:
    """One service's."""

    backlog: Backlog
    worker: Worker
    bells: Bells
    webhook: Webhook

    @classmethod
    def of(
        cls,
        env: Environment[InterruptionSettings],
        directory: Directory | OwnNode,
        calls: HookCalls | None = None,
    ) -> Hands:
        """For one source's ``directory``; without ``calls`` no lifecycle hook is known to AWS."""
        unavailable = UnavailableOfferings(env.bus.redis, env.bus.prefix, env.clock)
        bells = Bells(env.settings, env.bus, unavailable, env.clock)
        webhook = Webhook(env.settings, env.clock, env.random)
        deeds = Deeds(
            env.settings,
            Machines(env.kube),
            NodeMarks(env.kube),
            directory,
            bells,
            webhook,
            env.clock,
            env.metrics,
            env.recorder,
        )
        backlog = Backlog()
        hooks = Hooks(
            env.settings,
            calls,
            directory,
            HookMarks(env.kube),
            env.bus,
            webhook,
            env.clock,
            env.metrics,
            env.recorder,
        )
        worker = Worker(backlog, directory, deeds, env.clock, env.metrics, hooks)
        return cls(backlog, worker, bells, webhook)

    def loops(self) -> list[Loop]:
        """What runs them."""
        clock = self.bells.clock
        return [
            Loop("notices", self.worker.run, progress=lambda: self.worker.last_progress),
            Loop(
                "bells",
                self.bells.run,
                progress=lambda: self.bells.last_progress or clock.monotonic(),
            ),
            Loop(
                "webhook",
                self.webhook.run,
                progress=lambda: self.webhook.last_progress or clock.monotonic(),
            ),
        ]

    def status(self) -> dict[str, object]:
        """For the status page."""
        return {
            "waiting": len(self.backlog),
            "expired": self.backlog.expired,
            "handled": dict(self.worker.handled),
            "failed": self.worker.failed,
            "deleted": self.worker.deeds.deleted,
            "webhook": {"posted": self.webhook.posted, "dropped": self.webhook.dropped},
        }
