"""Lifecycle hooks of auto scaling groups, from the event to the end of the instance (INT-41, INT-42)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from services.interruption.notices.notice import HookName
from services.interruption.self_managed_nodes.imds_source import OwnNode
from services.interruption.self_managed_nodes.lifecycle_hooks import LifecycleHooks
from shared.domain import labels as keys
from shared.domain.nodes import Node
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.redis import streams
from shared.redis.messages import DrainNode
from tests.services.conftest import Published
from tests.services.interruption.self_managed_nodes.hook_world import (
    HEARTBEAT_TIMEOUT,
    HookWorld,
    hook_world,
)
from tests.services.launcher.mortal import Died, Life
from tests.services.terminator.conftest import clock, kube, store
from tests.services.terminator.conftest import world as terminator_world

__all__ = ["clock", "kube", "store", "terminator_world"]

Events = Callable[[], Any]
DRAINED = keys.DRAINED_ANNOTATION
TAINT = keys.LIFECYCLE_TAINT_KEY
REASON = "ASGLifecycle"
WRITES = 5
"""The node's patch, the bell, the eviction, "drained", the end of the hook."""


@pytest.fixture
async def hooked(terminator_world: Any, redis_url: str) -> AsyncIterator[HookWorld]:
    async with hook_world(terminator_world, redis_url) as made:
        yield made


def taints(node: Node) -> set[str]:
    return {taint.key for taint in node.taints}


def is_untouched(node: Node) -> bool:
    return not node.unschedulable and not taints(node) and not node.annotations


def is_over(hooked: HookWorld) -> bool:
    return hooked.action is not None and hooked.action.is_over


async def test_a_node_is_closed_drained_and_its_hook_ended(
    hooked: HookWorld, published: Published, events: Events
) -> None:
    """Daemon pods are not waited for; whose node it is takes it away."""
    web, agent = (hooked.world.pod(app, hooked.name) for app in ("web", "agent"))
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"}
    body = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    hooked.world.store.patch("pods", agent, body, namespace="default")
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    assert (hooked.node.unschedulable, taints(hooked.node)) == (True, {TAINT})
    assert await published(streams.TERMINATIONS) == [DrainNode(node=hooked.name)]
    await hooked.turns(20, lambda: hooked.is_ended)
    assert not hooked.world.leaving(web)
    assert hooked.world.leaving(agent)
    assert DRAINED in hooked.node.annotations
    await hooked.turn()
    action = hooked.action
    assert action is not None
    assert [hook.ended for hook in action.hooks] == ["CONTINUE"]
    assert hooked.node.finalizers == ()
    counted = {one: hooked.counted(one) for one in ("taken", "continue", "over", "failed")}
    assert counted == {"taken": 1, "continue": 1, "over": 0, "failed": 0}
    assert (await events()).count((REASON, hooked.name)) == 3  # taken, drained, ended


@pytest.mark.slow
async def test_a_budget_is_kept_to_the_end_while_the_hook_waits(hooked: HookWorld) -> None:
    """Heartbeats at half the hook's timeout; at the limit the pods are deleted, and the hook is ended."""
    hooked.restart(lifecycle_drain_limit=300)
    pod = hooked.world.pod("web", hooked.name, terminationGracePeriodSeconds=30)
    await hooked.world.budget("web", "web", minAvailable=1)
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    began = hooked.world.clock.now()
    assert hooked.action is not None
    assert hooked.action.until == began + 300
    await hooked.turns(9, lambda: hooked.counted("heartbeat") == 3, seconds=15)
    waited = hooked.world.clock.now() - began
    assert 3 * HEARTBEAT_TIMEOUT / 2 <= waited <= 3 * HEARTBEAT_TIMEOUT
    assert hooked.calls("RecordLifecycleActionHeartbeat") == 3
    assert not hooked.world.leaving(pod).get("deletionTimestamp")
    hooked.world.clock.advance(270 - waited)
    await hooked.turn()
    assert not hooked.world.leaving(pod)
    await hooked.turns(40, lambda: hooked.is_ended)


async def test_only_nodes_that_are_marked_and_not_ours(hooked: HookWorld, events: Events) -> None:
    """Off by default; the key of the Node Termination Handler on the group, else on the instance or the node."""
    hooked.end_by_group()
    notice = await hooked.notice()
    choices: tuple[dict[str, Any], ...] = (
        {"lifecycle_hooks": "off"},
        {"lifecycle_managed_tag": "another"},
        {"interruption_mode": "dry-run"},
    )
    for changes in choices:
        hooked.restart(**changes)
        await hooked.hooks.take(notice)
        assert is_untouched(hooked.node)
    assert await events() == [(REASON, hooked.name)]  # of the dry run
    for labels in ({keys.NODE_POOL: "default"}, {keys.NODE_POOL: None}):
        body = {"metadata": {"labels": labels}}
        hooked.world.store.patch(NODES.plural, hooked.name, body)
        await hooked.watch()
        hooked.restart(interruption_mode="cordon", lifecycle_managed_tag="own")
        await hooked.world.cloud.ec2.tag([hooked.instance], {"own": ""})
        await hooked.hooks.take(notice)
        ours = bool(labels[keys.NODE_POOL])
        assert taints(hooked.node) == (set() if ours else {TAINT})
    assert hooked.action is not None
    assert not hooked.action.evict  # test_hooks_without_drain has the rest
    label = {"metadata": {"labels": {"mine": "true"}}}
    hooked.world.store.patch(NODES.plural, hooked.name, label)
    await hooked.watch()
    hooked.restart(lifecycle_managed_tag="mine")
    await hooked.hooks.take(notice)
    assert hooked.action.evict


async def test_a_doubled_event_changes_nothing_and_a_second_hook_joins(
    hooked: HookWorld,
) -> None:
    """Each hook has a token of its own; the node is drained once. One that nobody waits for any more is no error."""
    hooked.end_by_group()
    notice = await hooked.notice()
    await hooked.hooks.take(notice)
    before = hooked.node
    await hooked.hooks.take(notice)
    assert hooked.node == before
    assert hooked.hooks.taken == 1
    assert notice.hook is not None
    other = HookName(notice.hook.group, "gone", "2f0a")
    await hooked.hooks.take(replace(notice, hook=other))
    await hooked.turns(20, lambda: is_over(hooked))
    action = hooked.action
    assert action is not None
    assert [(hook.name, hook.ended) for hook in action.hooks] == [
        ("drain", "CONTINUE"),
        ("gone", "over"),
    ]


async def test_what_aws_refuses_is_told_and_tried_again(hooked: HookWorld, events: Events) -> None:
    """And a node that is deleted meanwhile holds up nobody."""
    hooked.world.pod("web", hooked.name)
    await hooked.world.budget("web", "web", minAvailable=1)
    hooked.end_by_group()
    await hooked.hooks.take(await hooked.notice())
    await hooked.turn()
    assert not hooked.is_ended
    fault = {"action": "CompleteLifecycleAction", "code": "AccessDenied", "status": 403}
    hooked.world.control.post("faults", **fault, count=2)
    hooked.world.delete_node(hooked.name)
    await hooked.turns(3, lambda: hooked.counted("failed") == 1)
    assert "allow autoscaling:CompleteLifecycleAction" in hooked.keeper.problem
    await hooked.turns(20, lambda: hooked.is_ended)
    assert hooked.keeper.problem == ""
    assert (await events()).count((REASON, hooked.name)) == 3  # taken, refused, ended
    await hooked.turn()
    assert hooked.keeper.waiting == 0
    assert (hooked.counted("failed"), hooked.counted("continue")) == (2, 1)


async def die(hooked: HookWorld, dies_at: int, *, after: bool) -> None:
    """A whole drain; both services end at one of their writes, and new ones go on from the node."""
    hooked.restart()
    await hooked.another()
    hooked.world.pod("web", hooked.name)
    hooked.end_by_group()
    notice = await hooked.notice()
    life = Life(dies_at, after)
    hooked.restart(life)
    try:
        await hooked.hooks.take(notice)
        await hooked.turns(20, lambda: False)
    except (Died, BaseExceptionGroup):
        assert life.dead
    hooked.restart()
    await hooked.watch()
    await hooked.hooks.take(notice)  # the message was not deleted yet
    await hooked.turns(20, lambda: is_over(hooked))
    assert hooked.is_ended
    assert DRAINED in hooked.node.annotations


@pytest.mark.parametrize(
    "dies_at", [4, *(pytest.param(one, marks=pytest.mark.nightly) for one in (1, 2, 3, 5))]
)
async def test_both_services_killed_at_any_write_go_on_from_the_node(
    hooked: HookWorld, dies_at: int
) -> None:
    """Before it happens and after."""
    assert dies_at <= WRITES
    for after in (False, True):
        await die(hooked, dies_at, after=after)


async def test_an_agent_on_the_node_drains_and_calls_nobody(hooked: HookWorld) -> None:
    """``--source imds``: the hook's own timeout ends the instance."""
    own = OwnNode(hooked.world.kube, Machines(hooked.world.kube), hooked.name, hooked.instance)
    taker = LifecycleHooks(hooked.hooks.env, own, hooked.webhook)
    hooked.world.pod("web", hooked.name)
    hooked.end_by_group()
    await taker.take(replace(await hooked.notice(), hook=None))
    assert hooked.action is not None
    assert hooked.action.hooks == ()
    await hooked.turns(10, lambda: DRAINED in hooked.node.annotations)
    assert not hooked.is_ended
    assert hooked.calls("CompleteLifecycleAction") == 0
