"""``--source imds``: the same service as an agent on each node, for clusters without a queue.

It reads the metadata of the instance that it runs on and handles that one machine. It does not call AWS.
"""

from __future__ import annotations

from services.interruption.actions.webhook import Webhook
from services.interruption.actions.worker import NoticeHandling
from services.interruption.self_managed_nodes.imds_source import Imds, ImdsSource, OwnNode
from services.interruption.self_managed_nodes.lifecycle_hooks import LifecycleHooks
from shared.errors import ConfigurationError
from shared.kube.machines import Machines
from shared.runtime.environment import Entry, Environment
from shared.runtime.services import Loop, Service
from shared.settings import InterruptionSettings


async def build(env: Environment[InterruptionSettings]) -> Service:
    """Wire the agent. Raises ConfigurationError when it is switched off."""
    if not env.settings.self_managed_nodes:
        raise ConfigurationError(
            "--source imds needs SELF_MANAGED_NODES=true; with false, remove the DaemonSet of the agent"
        )
    own = OwnNode(env.kube, Machines(env.kube))
    webhook = Webhook(env.settings, env.clock, env.random)
    hooks = LifecycleHooks(env, own, webhook)
    handling = NoticeHandling.of(env, own, webhook, hooks.take)
    imds = Imds(env.settings.imds_endpoint, env.clock)
    env.stack.push_async_callback(imds.close)
    source = ImdsSource(
        env.settings, imds, handling.backlog, own, env.clock, env.random, env.metrics
    )
    loops = [
        Loop("metadata", source.run, progress=lambda: source.last_progress or None),
        *handling.loops(),
    ]

    def status() -> dict[str, object]:
        return {"instance": own.instance, "node": own.name, **handling.status()}

    def missing() -> list[str]:
        return [f"the metadata cannot be read: {source.problem}"] if source.problem else []

    return Service("interruption", loops, env.metrics, status, missing)


ENTRY = Entry("interruption", InterruptionSettings, build)
