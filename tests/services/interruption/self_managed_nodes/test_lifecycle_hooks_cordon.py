"""Lifecycle hooks that are ended without a drain: of nodes that are only cordoned, and of instances that are no nodes.

The Node Termination Handler ends the former too; the difference is that pods may finish first (INT-41).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.domain import labels as keys
from tests.services.conftest import CLUSTER
from tests.services.interruption.self_managed_nodes.hook_world import HookWorld, hook_world
from tests.services.terminator.conftest import clock, kube, store
from tests.services.terminator.conftest import world as terminator_world

__all__ = ["clock", "kube", "store", "terminator_world"]


@pytest.fixture
async def hooked(terminator_world: Any, redis_url: str) -> AsyncIterator[HookWorld]:
    async with hook_world(terminator_world, redis_url) as made:
        yield made


async def take(hooked: HookWorld, **changes: Any) -> None:
    hooked.restart(**changes)
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())


def stays(hooked: HookWorld, pod: str) -> bool:
    """Is it there, and was not asked to go?"""
    metadata = hooked.world.leaving(pod)
    return bool(metadata) and not metadata.get("deletionTimestamp")


async def test_the_hook_waits_until_the_pods_have_left_by_themselves(hooked: HookWorld) -> None:
    """A job may end in peace; its node is closed meanwhile."""
    pod = hooked.world.pod("job", hooked.name)
    await take(hooked, interruption_mode="cordon")
    assert hooked.node.unschedulable
    assert [taint.key for taint in hooked.node.taints] == [keys.LIFECYCLE_TAINT_KEY]
    await hooked.turns(9, lambda: hooked.counted("heartbeat") == 2, seconds=15)
    assert stays(hooked, pod)
    assert not hooked.is_ended
    hooked.world.store.delete("pods", pod, namespace="default")
    await hooked.turns(20, lambda: hooked.is_ended)
    assert hooked.counted("continue") == 1


async def test_the_hook_is_ended_at_the_limit_though_pods_stay(hooked: HookWorld) -> None:
    """At once with a limit of zero, as the Node Termination Handler does it."""
    for limit in (0.0, 120.0):
        await hooked.another()
        pod = hooked.world.pod("job", hooked.name)
        await take(hooked, lifecycle_hooks="cordon", lifecycle_drain_limit=limit)
        began = hooked.world.clock.now()
        await hooked.turns(40, lambda: hooked.is_ended, seconds=10)
        assert limit <= hooked.world.clock.now() - began <= limit + 30
        assert stays(hooked, pod)


OURS = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}
NODELESS: list[tuple[dict[str, str], dict[str, Any], bool]] = [
    (OURS, {"interruption_mode": "dry-run"}, False),
    (OURS, {"lifecycle_managed_tag": "mine"}, False),
    ({"kubernetes.io/cluster/another": "owned"}, {}, False),
    (OURS, {}, True),
]


async def test_an_instance_of_ours_that_is_no_node_keeps_nobody_waiting(
    hooked: HookWorld,
) -> None:
    """It never joined, or has not yet: nothing runs there. Other clusters' instances are theirs."""
    for tags, changes, ended in NODELESS:
        await hooked.another()
        hooked.world.delete_node(hooked.name)
        await hooked.watch()
        await hooked.world.cloud.ec2.tag([hooked.instance], tags)
        await take(hooked, **changes)
        assert hooked.counted("continue") == hooked.calls("CompleteLifecycleAction") == ended
    await hooked.turns(20, lambda: hooked.is_ended)
