"""What is done about an auto scaling group that ends an instance and waits for us (INT-41): a node that is not ours.

The node is closed and an annotation on it says until when it is drained; the terminator drains it, ``HookKeeper`` keeps
the hook waiting and ends it. Off unless LIFECYCLE_HOOKS is set, and then only for nodes that are marked as managed:
several controllers may read the events of one account, and other clusters' instances are among them.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.interruption.actions.action import NORMAL, WARNING
from services.interruption.actions.policy import step_for_hook
from services.interruption.actions.recent_actions import Memory
from services.interruption.actions.webhook import Told, Webhook
from services.interruption.directory import Directory
from services.interruption.notices.notice import Notice, NoticeKind
from services.interruption.self_managed_nodes.hook_annotations import HookMarks, until_text
from services.interruption.self_managed_nodes.hook_timing import timing
from services.interruption.self_managed_nodes.own_node import OwnNode
from shared import streams
from shared.api.references import to_node
from shared.bus import Bus
from shared.clock import Clock
from shared.cloud.autoscaling import CONTINUE, AutoScaling, HookTimes, Token
from shared.cloud.ec2 import Ec2
from shared.domain import labels as keys
from shared.domain.lifecycle_actions import Hook, LifecycleAction
from shared.domain.nodepools import DRAIN, DRY_RUN, IGNORE
from shared.domain.nodes import Node
from shared.errors import NotFound, Unauthorized
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.messages import DrainNode, send
from shared.metrics import Metrics
from shared.settings import InterruptionSettings

log = get_logger(__name__)

REASON = "ASGLifecycle"
"""Of events and webhook posts; the Node Termination Handler calls it so."""
OVER = "over"
"""How a hook ended that somebody else ended, or whose time ran out."""
TOLD_SECONDS = 3600.0
BELL_SECONDS = 2.0


@dataclass(frozen=True)
class HookCalls:
    """The calls to AWS; an agent on the node has none."""

    autoscaling: AutoScaling
    ec2: Ec2


@dataclass
class Hooks:
    """``take`` one notice of kind NoticeKind.LIFECYCLE."""

    settings: InterruptionSettings
    calls: HookCalls | None
    directory: Directory | OwnNode
    marks: HookMarks
    bus: Bus
    webhook: Webhook
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    taken: int = 0
    """Notices that changed a node."""
    _told: Memory = field(default_factory=Memory)

    async def take(self, notice: Notice) -> None:
        """Write down what the notice asks for. Raises TransientError and Unauthorized: the notice comes again."""
        step = step_for_hook(self.settings)
        if step == IGNORE:
            return
        for instance in notice.instances:
            node = await self.directory.any_node(instance)
            if node is None:
                await self._release(instance, notice)
            elif _is_drainable(node) and await self._is_marked(node, instance, notice):
                await self._act(step, node, instance, notice)

    async def _release(self, instance: str, notice: Notice) -> None:
        """An instance of this cluster that is no node, not yet or no longer: nothing runs there, nobody need wait."""
        hook, calls = notice.hook, self.calls
        if hook is None or calls is None or self.settings.interruption_mode == DRY_RUN:
            return
        cluster = f"kubernetes.io/cluster/{self.settings.cluster_name}"
        if not any(cluster in one.tags for one in await calls.ec2.instances(ids=[instance])):
            return
        if not await self._is_marked(None, instance, notice):
            return
        token = Token(hook.group, hook.name, hook.token, instance)
        how = CONTINUE if await calls.autoscaling.complete(token) else OVER
        self.metrics.lifecycle_actions.labels(how.lower()).inc()
        log.info("lifecycle hook of an instance without a node ended", instance=instance, how=how)

    async def _is_marked(self, node: Node | None, instance: str, notice: Notice) -> bool:
        """The key on node, group or instance. Where an agent runs, somebody has chosen the node already."""
        key = self.settings.lifecycle_managed_tag
        if not key or self.calls is None or (node is not None and key in node.labels):
            return True
        if notice.hook and await self.calls.autoscaling.is_tagged(notice.hook.group, key):
            return True
        return any(key in one.tags for one in await self.calls.ec2.instances(ids=[instance]))

    async def _act(self, step: str, node: Node, instance: str, notice: Notice) -> None:
        if self.settings.interruption_mode == DRY_RUN:
            text = f"{_text(notice)} (dry run: nothing is done, not {step})"
            await self._tell(node, f"dry run, not {step}", text)
        else:
            await self._begin(step, node, instance, notice)

    async def _begin(self, step: str, node: Node, instance: str, notice: Notice) -> None:
        """With CORDON the pods may stay as long as with DRAIN, only that nobody evicts them: the hook is ended when
        they have left, or at the end of the drain.
        """
        action = replace(await self._action(instance, notice), evict=step == DRAIN)
        try:
            changed = await self.marks.begin(node, action)
        except NotFound:
            return
        if changed:
            self.taken += 1
            self.metrics.lifecycle_actions.labels("taken").inc()
            log.info("closing a node for a lifecycle hook", node=node.name, then=step)
            how = "drained" if action.evict else "closed, its pods may stay"
            await self._tell(node, step, f"{_text(notice)}: {how} until {until_text(action)}")
        await self._ring(node, notice)

    async def _action(self, instance: str, notice: Notice) -> LifecycleAction:
        at = self.clock.now() if notice.at is None else notice.at
        times = await self._times(notice)
        until, every = timing(
            times,
            at=at,
            heartbeat=self.settings.lifecycle_heartbeat,
            limit=self.settings.lifecycle_drain_limit,
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

    async def _ring(self, node: Node, notice: Notice) -> None:
        """The terminator finds the node by itself, too: a Redis that hangs must not hold up anything."""
        message = DrainNode(node=node.name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BELL_SECONDS):
                await send(
                    self.bus, streams.TERMINATIONS, message, cause=notice.id, clock=self.clock
                )

    async def _tell(self, node: Node, what: str, text: str) -> None:
        kind = NORMAL if what.startswith("dry run") else WARNING
        involved = to_node(node)
        await self.recorder.publish(involved, kind, REASON, text, dedupe_seconds=TOLD_SECONDS)
        if self._told.first(f"{what}/{node.uid}", self.clock.monotonic(), TOLD_SECONDS):
            self.webhook.tell(Told(NoticeKind.LIFECYCLE, REASON, what, node, node.name))


def _is_drainable(node: Node) -> bool:
    """Ours are not: they have machines, and what ends their instances speaks for itself."""
    ours = node.is_managed or keys.FINALIZER in node.finalizers
    return not (ours or node.terminating)


def _text(notice: Notice) -> str:
    if notice.hook is None:
        return "The auto scaling group ends the instance"
    return (
        f"Auto scaling group {notice.hook.group} ends the instance, hook {notice.hook.name} waits"
    )
