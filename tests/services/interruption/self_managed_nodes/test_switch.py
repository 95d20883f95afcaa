"""Switches of the handling of nodes that no pool owns: SELF_MANAGED_NODES=false, and ENABLE_OUT_OF_SERVICE_TAINT."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from services.interruption.self_managed_nodes import agent
from shared.domain import labels as keys
from shared.domain.nodes import OUT_OF_SERVICE
from shared.errors import ConfigurationError
from shared.settings import InterruptionSettings, TerminatorSettings, read
from tests.services.conftest import CLUSTER
from tests.services.interruption.self_managed_nodes.hook_world import HookWorld, hook_world
from tests.services.terminator.conftest import clock, kube, store
from tests.services.terminator.conftest import world as terminator_world

__all__ = ["clock", "kube", "store", "terminator_world"]


@pytest.fixture
async def hooked(terminator_world: Any, redis_url: str) -> AsyncIterator[HookWorld]:
    async with hook_world(terminator_world, redis_url) as made:
        yield made


async def test_a_lifecycle_notice_changes_no_node(hooked: HookWorld) -> None:
    hooked.restart(self_managed_nodes=False)
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    assert hooked.action is None
    assert hooked.calls("CompleteLifecycleAction") == 0


async def test_a_hook_that_waits_already_is_left_to_its_timeout(hooked: HookWorld) -> None:
    """Switched off while a node drains."""
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    await hooked.watch()
    await hooked.keeper.check()
    assert hooked.keeper.waiting == 1
    hooked.restart(self_managed_nodes=False)
    hooked.world.clock.advance(3600)
    await hooked.keeper.check()
    assert hooked.keeper.waiting == 0
    assert hooked.calls("CompleteLifecycleAction") == 0


async def test_the_agent_does_not_start_and_names_the_setting() -> None:
    settings = read(
        InterruptionSettings, cluster_name=CLUSTER, aws_region="us-west-2", self_managed_nodes=False
    )
    env: Any = SimpleNamespace(settings=settings)
    with pytest.raises(ConfigurationError, match="SELF_MANAGED_NODES"):
        await agent.build(env)


async def test_the_terminator_leaves_the_node_alone(hooked: HookWorld) -> None:
    """Its own switch: a node that the interruption service has closed before is not drained."""
    hooked.world.pod("web", hooked.name)
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    hooked.world.settings = read(
        TerminatorSettings, cluster_name=CLUSTER, aws_region="us-west-2", self_managed_nodes=False
    )
    hooked.world.restart()
    for _ in range(10):
        await hooked.turn()
    assert hooked.action is not None
    assert keys.DRAINED_ANNOTATION not in hooked.node.annotations


@pytest.mark.parametrize("asked", [True, False])
async def test_a_drained_node_is_out_of_service_if_asked_for(
    hooked: HookWorld, asked: bool
) -> None:
    """Its volumes are detached then, without waiting for a kubelet that the group is about to end."""
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    hooked.world.settings = read(
        TerminatorSettings,
        cluster_name=CLUSTER,
        aws_region="us-west-2",
        enable_out_of_service_taint=asked,
    )
    hooked.world.restart()
    await hooked.turns(30, lambda: keys.DRAINED_ANNOTATION in hooked.node.annotations)
    assert (OUT_OF_SERVICE in hooked.node.taints) is asked
