"""When a pod is asked again that may not go (TRM-08, F22, F28)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from services.terminator.drain.eviction import (
    FIRST_PAUSE_SECONDS,
    FRESH_SECONDS,
    LONGEST_PAUSE_SECONDS,
)
from services.terminator.drain.pods import DrainStep
from shared.api.core.nodes import parse_node
from shared.api.core.pods import parse_pod
from shared.domain.nodes import Node
from shared.domain.workloads.pods import Pod
from shared.errors import Unavailable
from tests.services.terminator.world import World


@pytest.fixture
async def node(world: World) -> Node:
    world.node("node-1", "")
    return parse_node(world.store.get("nodes", "node-1"))


def pod_of(world: World, name: str) -> Pod:
    return parse_pod(world.store.get("pods", name, namespace="default"))


def requests(world: World, code: str) -> float:
    name = "karpenter_pods_eviction_requests_total"
    return world.metrics.registry.get_sample_value(name, {"code": code}) or 0.0


async def ask(world: World, node: Node, *pods: Pod) -> None:
    step = DrainStep(pods, (), (), len(pods))
    await world.termination.drains.evictions.carry_out(node, step, "Drifted")


async def test_the_pauses_grow_from_a_tenth_of_a_second_to_ten(world: World, node: Node) -> None:
    """TRM-08: not asked a moment before its pause is over, and asked right then."""
    pod = pod_of(world, world.pod("web", node.name))
    await world.budget("web", "web", maxUnavailable=0)
    pauses = [FIRST_PAUSE_SECONDS * 2**power for power in range(7)] + [LONGEST_PAUSE_SECONDS] * 3
    await ask(world, node, pod)
    for asked, pause in enumerate(pauses, 1):
        world.clock.advance(pause - 0.01)
        await ask(world, node, pod)
        assert requests(world, "429") == asked
        world.clock.advance(0.011)
        await ask(world, node, pod)
        assert requests(world, "429") == asked + 1


async def test_a_pod_that_left_and_came_again_is_a_new_one(world: World, node: Node) -> None:
    """TRM-08, F29: 409 for a namesake with another UID, 404 for none; neither is asked again."""
    old = pod_of(world, world.pod("web", node.name, owned=False))
    world.store.delete("pods", old.name, namespace="default", grace_seconds=0)
    await ask(world, node, old)
    assert requests(world, "404") == 1
    body: dict[str, Any] = {
        "metadata": {"name": old.name, "namespace": "default"},
        "spec": {"nodeName": node.name, "containers": [{"name": "main", "image": "app"}]},
    }
    world.store.create("pods", body)
    await ask(world, node, old)
    assert requests(world, "409") == 1
    assert "deletionTimestamp" not in world.leaving(old.name)


async def test_pods_are_looked_at_again_before_a_long_round_goes_on(
    world: World, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of hundreds many have gone by the time it is their turn: asking for those is answered with 404."""
    pods = [pod_of(world, world.pod(app, node.name)) for app in ("first", "second")]
    evict = world.kube.evict

    async def slow(name: str, namespace: str, **how: Any) -> None:
        await evict(name, namespace, **how)
        world.clock.advance(FRESH_SECONDS)

    monkeypatch.setattr(world.kube, "evict", slow)
    await ask(world, node, *pods)
    assert requests(world, "201") == 1
    await ask(world, node, pods[1])
    assert requests(world, "201") == 2


async def test_an_evicted_pod_hears_why(world: World, node: Node, events: Any) -> None:
    """TRM-08: eviction with growing pauses."""
    pod = pod_of(world, world.pod("web", node.name))
    await ask(world, node, pod)
    await events()
    (event,) = world.store.list("events")
    assert (event["reason"], event["message"]) == ("Evicted", "Evicted pod: Drifted")


async def test_one_pod_whose_eviction_fails_does_not_hold_up_the_next(
    world: World, node: Node, monkeypatch: pytest.MonkeyPatch, events: Any
) -> None:
    """F28: somebody's webhook for one namespace is away."""
    bad, good = (pod_of(world, world.pod(app, node.name)) for app in ("bad", "good"))
    evict = world.kube.evict

    async def webhook_is_away(name: str, namespace: str, **how: Any) -> None:
        if name == bad.name:
            raise Unavailable("failed calling webhook", code=500)
        await evict(name, namespace, **how)

    monkeypatch.setattr(world.kube, "evict", webhook_is_away)
    await ask(world, node, bad, good)
    assert world.leaving(good.name)["deletionTimestamp"]
    assert (requests(world, "500"), requests(world, "201")) == (1, 1)
    assert ("FailedDraining", node.name) in await events()


async def test_pods_of_one_full_budget_do_not_all_wait_for_the_same_moment(
    world: World, node: Node
) -> None:
    """TRM-08: in lockstep one pod would go every ten seconds, and a spot node has two minutes."""
    pods = [pod_of(world, world.pod("web", node.name)) for _ in range(8)]
    await world.budget("web", "web", minAvailable=len(pods))
    moments = []
    for second in range(100):
        before = requests(world, "429")
        await ask(world, node, *pods)
        if requests(world, "429") > before:
            moments.append(second)
        world.clock.advance(1.0)
    settled = [second for second in moments if second > 60]
    gaps = [later - earlier for earlier, later in itertools.pairwise(settled)]
    assert 1 <= max(gaps) <= LONGEST_PAUSE_SECONDS / 2
