"""The counter of pods that drains took from their nodes (MET-04)."""

from __future__ import annotations

from services.terminator.drain.pods import Deletion, DrainStep
from shared.api.core.nodes import parse_node
from shared.api.core.pods import parse_pod
from shared.domain.workloads.pods import Pod
from tests.services.terminator.world import World


async def test_each_pod_counts_once_evicted_or_deleted(world: World) -> None:
    """MET-04: a pod that is asked again on its way out, and one that a budget holds, are not counted."""
    world.node("node-1", "")
    node = parse_node(world.store.get("nodes", "node-1"))

    def pod_of(name: str) -> Pod:
        return parse_pod(world.store.get("pods", name, namespace="default"))

    names = [world.pod(app, node.name) for app in ("web", "late", "held")]
    await world.budget("held", "held", maxUnavailable=0)
    evictions = world.termination.drains.evictions

    async def ask() -> None:
        web, late, held = map(pod_of, names)
        evict = tuple(pod for pod in (web, held) if not pod.terminating)
        await evictions.carry_out(node, DrainStep(evict, (Deletion(late, 1),), (), 3), "Drifted")

    await ask()
    await ask()
    name = "karpenter_pods_drained_total"
    assert world.metrics.registry.get_sample_value(name, {"reason": "drifted"}) == 2
