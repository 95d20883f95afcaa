"""``--source imds``: the same service as an agent on each node, for clusters without a queue.

It reads the metadata of the instance that it runs on and speaks for that one machine. AWS itself is not called.
"""

from __future__ import annotations

from services.interruption.composition import Hands
from services.interruption.self_managed_nodes.imds import Imds
from services.interruption.self_managed_nodes.imds_source import ImdsSource
from services.interruption.self_managed_nodes.own_node import OwnNode
from shared.environment import Entry, Environment
from shared.kube.machines import Machines
from shared.runtime import Loop, Service
from shared.settings import InterruptionSettings


async def build(env: Environment[InterruptionSettings]) -> Service:
    """Wire the agent."""
    own = OwnNode(env.kube, Machines(env.kube))
    hands = Hands.of(env, own)
    imds = Imds(env.settings.imds_endpoint, env.clock)
    env.stack.push_async_callback(imds.close)
    source = ImdsSource(env.settings, imds, hands.backlog, own, env.clock, env.random, env.metrics)
    loops = [
        Loop(
            "metadata", source.run, progress=lambda: source.last_progress or env.clock.monotonic()
        ),
        *hands.loops(),
    ]

    def status() -> dict[str, object]:
        return {"instance": own.instance, "node": own.name, **hands.status()}

    def missing() -> list[str]:
        return [f"the metadata cannot be read: {source.problem}"] if source.problem else []

    return Service("interruption", loops, env.metrics, status, missing)


ENTRY = Entry("interruption", InterruptionSettings, build)
