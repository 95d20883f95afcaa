"""What is done when an auto scaling group ends an instance, no pool owns its node, and a lifecycle hook waits (INT-41).

The node is closed, and an annotation on it says until when it is drained; the terminator drains it, ``HookKeeper``
keeps the hook waiting and completes it. Off unless LIFECYCLE_HOOKS is set, and then only for nodes with the managed
tag: several controllers may read the events of one account, and instances of other clusters are among them.

The annotation is written by compare-and-set: several hooks, services and people write there. One patch closes the node
and says why, so that no crash leaves a closed node that nobody opens or drains.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from services.interruption.actions.policy import NORMAL, WARNING
from services.interruption.actions.webhook import Report, Webhook
from services.interruption.directory import InstanceLookup
from services.interruption.notices.notice import OUR_TAINT_VALUE, Notice, NoticeKind
from services.interruption.self_managed_nodes.hook_timing import step_for_hook, timing
from shared.api.core.nodes import parse_node, taint_objects
from shared.api.core.references import to_node
from shared.cloud.autoscaling import CONTINUE, AutoScaling, HookTimes, Token
from shared.cloud.ec2.calls import Ec2
from shared.concurrency.clock import rfc3339
from shared.concurrency.expiring import Expiring
from shared.domain import labels as keys
from shared.domain.expressions import NO_SCHEDULE, Taint
from shared.domain.machines.lifecycle_actions import (
    Hook,
    LifecycleAction,
    ended,
    joined,
    parse_lifecycle_action,
)
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import DRAIN, DRY_RUN, IGNORE
from shared.errors import Conflict, NotFound, Unauthorized
from shared.kube.client import Kube
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.redis import streams
from shared.redis.messages import DrainNode, send
from shared.runtime.environment import Environment
from shared.settings import InterruptionSettings

log = get_logger(__name__)

TRIES = 3
TAINT = Taint(keys.LIFECYCLE_TAINT_KEY, NO_SCHEDULE, OUR_TAINT_VALUE)
"""Closes a node whose auto scaling group ends it (INT-42)."""
REASON = "ASGLifecycle"
"""Of events and webhook posts; the Node Termination Handler calls it so."""
OVER = "over"
"""How a hook ended that somebody else completed, or whose time ran out."""
REPORT_DEDUPE_SECONDS = 3600.0
SEND_SECONDS = 2.0


@dataclass
class HookAnnotations:
    """Reads the node afresh before each write. Methods raise NotFound, also when another node has the name by now."""

    kube: Kube

    async def begin(self, node: Node, new: LifecycleAction) -> bool:
        """Close the node and ask for its drain. False: that was written before."""

        def change(found: Node, held: LifecycleAction | None) -> dict[str, Any] | None:
            desired = joined(held, new)
            if desired == held:
                return None
            notes: dict[str, str | None] = {keys.LIFECYCLE_ANNOTATION: desired.text}
            if desired == new:
                notes[keys.DRAINED_ANNOTATION] = None  # of an earlier life of the instance
            others = tuple(taint for taint in found.taints if taint.key != TAINT.key)
            spec = {"unschedulable": True, "taints": taint_objects((*others, TAINT))}
            return {"metadata": {"annotations": notes}, "spec": spec}

        return await self._write(node, change)

    async def end(self, node: Node, hook: Hook, how: str) -> bool:
        """Write that this hook waits no longer. False: that was written before."""

        def change(_: Node, held: LifecycleAction | None) -> dict[str, Any] | None:
            desired = held and ended(held, hook, how)
            if desired is None or desired == held:
                return None
            return {"metadata": {"annotations": {keys.LIFECYCLE_ANNOTATION: desired.text}}}

        return await self._write(node, change)

    async def _write(
        self,
        node: Node,
        change: Callable[[Node, LifecycleAction | None], dict[str, Any] | None],
    ) -> bool:
        for attempt in range(TRIES):
            raw = await self.kube.get(NODES, node.name)
            if raw["metadata"]["uid"] != node.uid:
                raise NotFound(f"node {node.name} has been replaced by another of its name")
            found = parse_node(raw)
            body = change(found, action_of(found))
            if body is None:
                return False
            body["metadata"]["resourceVersion"] = raw["metadata"]["resourceVersion"]
            try:
                await self.kube.patch(NODES, node.name, body)
                return True
            except Conflict:
                if attempt == TRIES - 1:
                    raise
        return False


def action_of(node: Node) -> LifecycleAction | None:
    """The lifecycle action that is written on the node; None: none is."""
    return parse_lifecycle_action(node.annotations.get(keys.LIFECYCLE_ANNOTATION, ""))


@dataclass(frozen=True)
class HookCalls:
    """The calls to AWS; the agent on a node has none."""

    autoscaling: AutoScaling
    ec2: Ec2


@dataclass
class LifecycleHooks:
    """``take`` one notice of kind NoticeKind.LIFECYCLE."""

    env: Environment[InterruptionSettings]
    directory: InstanceLookup
    webhook: Webhook
    calls: HookCalls | None = None
    """None: AWS is asked nothing about a hook."""
    taken: int = 0
    """Notices that changed a node."""
    _recent: Expiring[bool] = field(default_factory=Expiring)
    """What this process did a moment ago, while the mirror may not show it yet."""

    async def take(self, notice: Notice) -> None:
        """Write on the nodes what the notice asks for. Raises TransientError and Unauthorized: it comes again."""
        step = step_for_hook(self.env.settings)
        if step == IGNORE:
            return
        for instance in notice.instances:
            node = await self.directory.any_node(instance)
            if node is None:
                await self._release(instance, notice)
            elif _is_drainable(node) and await self._is_managed(node, instance, notice):
                await self._act(step, node, instance, notice)

    async def _release(self, instance: str, notice: Notice) -> None:
        """Complete the hook of an instance of this cluster without a node: no pod runs there, so nothing need wait."""
        hook, calls = notice.hook, self.calls
        if hook is None or calls is None or self.env.settings.interruption_mode == DRY_RUN:
            return
        cluster = f"kubernetes.io/cluster/{self.env.settings.cluster_name}"
        if not any(cluster in one.tags for one in await calls.ec2.instances(ids=[instance])):
            return
        if not await self._is_managed(None, instance, notice):
            return
        token = Token(hook.group, hook.name, hook.token, instance)
        how = CONTINUE if await calls.autoscaling.complete(token) else OVER
        self.env.metrics.lifecycle_actions.labels(how.lower()).inc()
        log.info("lifecycle hook of an instance without a node ended", instance=instance, how=how)

    async def _is_managed(self, node: Node | None, instance: str, notice: Notice) -> bool:
        """Is the managed tag on node, group or instance? Running an agent on a node chooses it already."""
        key = self.env.settings.lifecycle_managed_tag
        if not key or self.calls is None or (node is not None and key in node.labels):
            return True
        if notice.hook and await self.calls.autoscaling.is_tagged(notice.hook.group, key):
            return True
        return any(key in one.tags for one in await self.calls.ec2.instances(ids=[instance]))

    async def _act(self, step: str, node: Node, instance: str, notice: Notice) -> None:
        if self.env.settings.interruption_mode == DRY_RUN:
            text = f"{_text(notice)} (dry run: nothing is done, not {step})"
            await self._report(node, f"dry run, not {step}", text)
        else:
            await self._begin(step, node, instance, notice)

    async def _begin(self, step: str, node: Node, instance: str, notice: Notice) -> None:
        """Close the node. With CORDON nobody evicts its pods: the hook is completed when they have left by
        themselves, and at the latest when a drain would have ended.
        """
        action = replace(await self._action(instance, notice), evict=step == DRAIN)
        try:
            changed = await HookAnnotations(self.env.kube).begin(node, action)
        except NotFound:
            return
        if changed:
            self.taken += 1
            self.env.metrics.lifecycle_actions.labels("taken").inc()
            log.info("closing a node for a lifecycle hook", node=node.name, then=step)
            how = "drained" if action.evict else "closed, its pods may stay"
            await self._report(node, step, f"{_text(notice)}: {how} until {rfc3339(action.until)}")
        await self._inform_terminator(node, notice)

    async def _action(self, instance: str, notice: Notice) -> LifecycleAction:
        at = self.env.clock.now() if notice.at is None else notice.at
        times = await self._times(notice)
        until, every = timing(
            times,
            at=at,
            heartbeat=self.env.settings.lifecycle_heartbeat,
            limit=self.env.settings.lifecycle_drain_limit,
        )
        hooks: tuple[Hook, ...] = ()
        if notice.hook and self.calls:
            hook = notice.hook
            hooks = (Hook(hook.name, hook.group, hook.token, every),)
        return LifecycleAction(instance, at, until, hooks)

    async def _times(self, notice: Notice) -> HookTimes | None:
        if notice.hook is None or self.calls is None:
            return None
        try:
            return await self.calls.autoscaling.hook_times(notice.hook.group, notice.hook.name)
        except Unauthorized as error:
            log.warning("the times of a hook are not known", problem=error.message)
            return None

    async def _inform_terminator(self, node: Node, notice: Notice) -> None:
        """Bounded: the terminator finds the node by its own resync, so a Redis that hangs may not hold up this."""
        message = DrainNode(node=node.name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEND_SECONDS):
                await send(
                    self.env.bus,
                    streams.TERMINATIONS,
                    message,
                    cause=notice.id,
                    clock=self.env.clock,
                )

    async def _report(self, node: Node, what: str, text: str) -> None:
        kind = NORMAL if what.startswith("dry run") else WARNING
        involved = to_node(node)
        await self.env.recorder.publish(
            involved, kind, REASON, text, dedupe_seconds=REPORT_DEDUPE_SECONDS
        )
        if self._recent.begin(
            f"{what}/{node.uid}", self.env.clock.monotonic(), REPORT_DEDUPE_SECONDS
        ):
            self.webhook.report(Report(NoticeKind.LIFECYCLE, REASON, what, node, node.name))


def _is_drainable(node: Node) -> bool:
    """False for nodes of pools: they have Machines, and other notices say what ends their instances."""
    owned = node.is_managed or keys.FINALIZER in node.finalizers
    return not (owned or node.terminating)


def _text(notice: Notice) -> str:
    if notice.hook is None:
        return "The auto scaling group ends the instance"
    return (
        f"Auto scaling group {notice.hook.group} ends the instance, hook {notice.hook.name} waits"
    )
