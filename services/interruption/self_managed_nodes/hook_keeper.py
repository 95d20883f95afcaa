"""Keeps lifecycle hooks waiting while their nodes drain, then completes them (INT-41).

Its state stands on the nodes and is read through the watcher's mirror. A restart forgets only the times of the last
heartbeats and refusals, and a heartbeat too many is harmless. What may go wrong: AWS does not answer, or refuses. Then
it is called again with growing pauses, the node gets an event, and at worst the hook's own timeout ends the instance.
The wall clock jumps: ahead, it brings the end of no hook nearer, and heartbeats do not depend on it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from services.interruption.actions.policy import NORMAL, WARNING
from services.interruption.actions.webhook import Report, Webhook
from services.interruption.directory import Directory
from services.interruption.notices.notice import NoticeKind
from services.interruption.self_managed_nodes.hook_timing import HookStep, due
from services.interruption.self_managed_nodes.lifecycle_hooks import (
    OVER,
    REASON,
    HookAnnotations,
    action_of,
)
from shared.api.core.references import to_node
from shared.cloud.autoscaling import CONTINUE, AutoScaling, Token
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import SteadyTime
from shared.concurrency.parallel import in_parallel
from shared.domain import labels as keys
from shared.domain.machines.lifecycle_actions import Hook, LifecycleAction
from shared.domain.nodes import Node
from shared.errors import DovetailError, NotFound
from shared.log import get_logger
from shared.runtime.environment import Environment
from shared.settings import InterruptionSettings

log = get_logger(__name__)

PERIOD_SECONDS = 1.0
AT_ONCE = 8
"""Calls to EC2 Auto Scaling at once."""
CALL_SECONDS, CHECK_SECONDS = 5.0, 20.0
"""For one hook, and for all of one check: a hook that AWS keeps waiting must not hold up the others."""
LONGEST_PAUSE_SECONDS = 30.0
FAILED_SECONDS = 600.0
"""How often a node gets an event that its hook cannot be reached."""

Key = tuple[str, tuple[str, str, str]]
"""Node UID, identity of the hook."""
Case = tuple[Node, LifecycleAction, Hook]


@dataclass
class Attempts:
    """The calls for one hook. ``time``: since it was first seen; ``beat_at``: last heartbeat, monotonic seconds."""

    time: SteadyTime
    beat_at: float
    backoff: Backoff
    again_at: float = float("-inf")
    """Monotonic time before which AWS is not called again."""
    how: str = ""
    """How the hook ended at AWS; the node may not say so yet."""
    reported: bool = False


@dataclass
class HookKeeper:
    """Call ``check`` every second."""

    env: Environment[InterruptionSettings]
    autoscaling: AutoScaling
    directory: Directory
    webhook: Webhook
    problem: str = ""
    """The last error of AWS; empty when it took the last call."""
    _attempts: dict[Key, Attempts] = field(default_factory=dict)
    _cases: dict[Key, Case] = field(default_factory=dict)
    """The hooks that waited at the last check."""

    @property
    def waiting(self) -> int:
        return len(self._cases)

    async def check(self) -> None:
        """Give each hook what it needs now. Failures are reported and tried again."""
        if not self.env.settings.self_managed_nodes:
            self._cases.clear()
            return
        seen = {(case[0].uid, case[2].identity): case for case in self._open()}
        # A node may be missing because the mirror is behind: its hook is kept waiting until the node is certainly gone.
        missing = {
            key: case
            for key, case in self._cases.items()
            if key not in seen and not self.directory.shows_node(case[0].name)
        }
        lost = {key for key, case in missing.items() if self.directory.has_lost(case[0].name)}
        self._cases = {**seen, **missing}
        self._attempts = {k: one for k, one in self._attempts.items() if k in self._cases}
        keeps = [self._keep(key, case, key in lost) for key, case in self._cases.items()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS):
                await in_parallel(keeps, most=AT_ONCE)

    def _open(self) -> Iterator[Case]:
        for node in self.directory.nodes_with_hooks():
            action = action_of(node)
            if action is not None:
                yield from ((node, action, hook) for hook in action.waiting)

    async def _keep(self, key: Key, case: Case, lost: bool) -> None:
        node, action, hook = case
        clock = self.env.clock
        known = self._attempts.get(key)
        if known is None:
            known = self._attempts[key] = self._first_seen(action)
        drained = lost or keys.DRAINED_ANNOTATION in node.annotations
        now = known.time.now(clock)
        last_beat = now - (clock.monotonic() - known.beat_at)
        step = due(action, hook, drained=drained, last_beat=last_beat, now=now)
        waits = clock.monotonic() < known.again_at
        if waits or (step == HookStep.NOTHING and not known.how):
            return
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._call(case, known, step)
        except (DovetailError, TimeoutError) as error:
            known.again_at = self.env.clock.monotonic() + known.backoff.next()
            await self._report_failure(node, hook, error)
            return
        known.backoff.reset()
        self.problem = ""
        if lost:
            del self._cases[key]

    def _first_seen(self, action: LifecycleAction) -> Attempts:
        time = SteadyTime.begin(self.env.clock)
        waited = max(0.0, time.wall - action.at)  # its start counts as a heartbeat
        pauses = Backoff(self.env.random, first=1.0, cap=LONGEST_PAUSE_SECONDS)
        return Attempts(time, time.monotonic - waited, pauses)

    async def _call(self, case: Case, known: Attempts, step: HookStep) -> None:
        node, action, hook = case
        token = Token(hook.group, hook.name, hook.token, action.instance)
        if step == HookStep.HEARTBEAT and not known.how:
            if await self.autoscaling.heartbeat(token):
                known.beat_at = self.env.clock.monotonic()
                self.env.metrics.lifecycle_actions.labels("heartbeat").inc()
                log.info("lifecycle hook waits on", node=node.name, hook=hook.name)
                return
            known.how = OVER
        if not known.how:
            known.how = CONTINUE if await self.autoscaling.complete(token) else OVER
        await self._write(case, known)

    async def _write(self, case: Case, known: Attempts) -> None:
        """Write on the node how its hook ended; a node that is gone needs no write."""
        node, _, hook = case
        try:
            await HookAnnotations(self.env.kube).end(node, hook, known.how)
        except NotFound:
            log.info("node is gone", node=node.name)
        if known.reported:
            return
        known.reported = True
        self.env.metrics.lifecycle_actions.labels(known.how.lower()).inc()
        end = "waits no longer" if known.how == OVER else f"was ended: {known.how}"
        log.info("lifecycle hook ended", node=node.name, hook=hook.name, how=known.how)
        text = f"Lifecycle hook {hook.name} of {hook.group} {end}"
        await self.env.recorder.publish(to_node(node), NORMAL, REASON, text)
        self.webhook.report(
            Report(NoticeKind.LIFECYCLE, REASON, known.how.lower(), node, node.name)
        )

    async def _report_failure(
        self, node: Node, hook: Hook, error: DovetailError | TimeoutError
    ) -> None:
        self.env.metrics.lifecycle_actions.labels("failed").inc()
        problem = getattr(error, "message", f"no answer within {CALL_SECONDS:.0f} s")
        if problem != self.problem:
            log.warning("lifecycle hook not reached", node=node.name, problem=problem)
        self.problem = problem
        text = f"Lifecycle hook {hook.name} of {hook.group} is not reached: {problem}"
        await self.env.recorder.publish(
            to_node(node), WARNING, REASON, text, dedupe_seconds=FAILED_SECONDS
        )
