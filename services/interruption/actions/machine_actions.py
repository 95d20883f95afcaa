"""What is done with one machine because of one notice, each deed so that a repeat changes nothing (8.3, INT-20..23).

Every write names the UID it means: a picture of the mirror may be old. What a deed leaves behind stands on the machine
or its node, so that a restart finds it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.interruption.actions.action import NORMAL, WARNING, Action
from services.interruption.actions.notifier import Bells
from services.interruption.actions.policy import (
    REOPEN,
    REPLACE,
    TELL,
    WAIT,
    Policy,
    caused,
    policy_of,
    step_for,
)
from services.interruption.actions.recent_actions import Memory
from services.interruption.actions.webhook import Told, Webhook
from services.interruption.directory import Directory
from services.interruption.notices.notice import ANNOUNCED, Notice, NoticeKind
from services.interruption.notices.scheduled_events import (
    Maintenance,
    ends,
    held_by,
    maintenance_of,
)
from services.interruption.notices.taints import taint_for
from services.interruption.self_managed_nodes.own_node import OwnNode
from shared.api.references import to_machine, to_node
from shared.clock import Clock, rfc3339
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines import Machine
from shared.domain.nodepools import CORDON, DELETE
from shared.domain.nodes import Node
from shared.errors import Conflict, NotFound, Unavailable
from shared.kube.machines import Machines
from shared.kube.node_marks import NodeMarks
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.metrics import Metrics
from shared.settings import InterruptionSettings

log = get_logger(__name__)

EVENT_DEDUPE_SECONDS = 120.0
TOLD_SECONDS = 3600.0
"""Of what is announced again and again while it is only told or waited for."""
DEED_SECONDS = 60.0
"""After this long the mirror must show what we did; if not, it is done again."""
NODE_WAIT_SECONDS = 900.0
"""A machine that has no node this long after a notice will hardly get one."""
DRY = "dry run: nothing is done"


@dataclass(frozen=True)
class Case:
    """A machine of ours, a notice about it, and what its pool wants."""

    machine: Machine
    instance: str
    notice: Notice
    action: Action
    policy: Policy


@dataclass
class Deeds:
    """Does what ``policy.step_for`` says."""

    settings: InterruptionSettings
    machines: Machines
    marks: NodeMarks
    directory: Directory | OwnNode
    bells: Bells
    webhook: Webhook
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    deleted: int = 0
    """Machines whose deletion was ordered."""
    _memory: Memory = field(default_factory=Memory)

    async def act(self, machine: Machine, instance: str, action: Action, notice: Notice) -> None:
        """Act on one machine. Raises the translated error of what failed."""
        policy = policy_of(await self.directory.pool(machine), self.settings)
        case = Case(machine, instance, notice, action, policy)
        step = step_for(notice, policy, now=self.clock.now())
        if step == REOPEN:
            await (self._open if notice.kind == NoticeKind.HEALED else self._reopen)(case)
            return
        text = f"{action.text} ({DRY}, not {step})" if policy.dry_run else action.text
        again = EVENT_DEDUPE_SECONDS if step == DELETE and not policy.dry_run else TOLD_SECONDS
        await self._event(case, action.event_type, action.reason, text, again)
        if policy.dry_run:
            self._tell(case, f"dry run, not {step}")
            return
        self._mark_short(case, step)
        await self._do(step, case)

    async def _do(self, step: str, case: Case) -> None:
        deeds = {
            DELETE: self._delete,
            CORDON: self._cordon,
            REPLACE: self._replace,
            WAIT: self._wait,
            TELL: self._only_tell,
        }
        await deeds[step](case)
        self.metrics.count_action(drains=step in (DELETE, REPLACE))

    def _mark_short(self, case: Case, step: str) -> None:
        """A pool that EC2 recommends to leave is no place for the replacement."""
        shortage = keys.SPOT if step == REPLACE else case.action.shortage
        machine = case.machine
        if shortage and machine.zone and machine.instance_type:
            self.bells.mark((shortage, machine.instance_type, machine.zone))

    async def _only_tell(self, case: Case) -> None:
        self._tell(case, TELL)

    async def _delete(self, case: Case) -> None:
        if case.action.at_once:
            await self._end_now(case.machine)
        if case.notice.kind in ANNOUNCED and case.notice.at is None:
            await self._remember(case)  # after a kill it tells why the machine goes
        ordered = await self._ordered(case)
        if ordered:
            self._say_deleted(case)
        if ordered or caused(case.notice, case.machine, case.policy):
            text = "Interruption triggered termination"
            await self._event(
                case, WARNING, "TerminatingOnInterruption", text, TOLD_SECONDS, once=DELETE
            )

    def _say_deleted(self, case: Case) -> None:
        self.deleted += 1
        machine = case.machine
        log.info(
            "initiating delete from interruption message",
            machine=machine.name,
            kind=case.notice.kind,
            instance=case.instance,
        )
        self.metrics.count_disrupted(machine, case.notice.kind)
        self.bells.ring(machine, case.instance, case.notice)
        self._tell(case, DELETE)

    async def _ordered(self, case: Case) -> bool:
        """Whether we ordered the machine's deletion just now (INT-21)."""
        if case.machine.terminating:
            return False
        gone = False

        async def delete() -> None:
            nonlocal gone
            gone = not await self.machines.delete(case.machine)

        return await self._once(f"delete/{case.machine.uid}", delete) and not gone

    async def _end_now(self, machine: Machine) -> None:
        """Nothing may hold the drain any longer (TRM-10); an earlier time that stands is left alone."""
        now = self.clock.now()
        if machine.terminate_at is None or machine.terminate_at > now:
            await self._annotate(machine, keys.TERMINATION_TIMESTAMP, rfc3339(now))

    async def _cordon(self, case: Case) -> None:
        """Close the node by a taint of ours and leave what runs there alone (INT-41)."""
        node = self.directory.node(case.instance)
        if case.notice.kind in ANNOUNCED:
            await self._remember(case)
        if node is None:
            self._wait_for_node(case)
            return
        taint = taint_for(case.notice.kind)
        if node.terminating:
            return
        try:
            done = taint not in node.taints and await self._close(node, taint)
        except NotFound:
            self._wait_for_node(case)
            return
        # Whoever closed the node may have been killed before it said so.
        if self._memory.first(_saying(taint, node), self.clock.monotonic(), TOLD_SECONDS):
            await self._event(case, WARNING, "Cordon", f"Node is closed by the taint {taint.key}")
        if done:
            self._tell(case, CORDON)

    async def _close(self, node: Node, taint: Taint) -> bool:
        """Whether our taint was put on just now. Raises NotFound."""
        self._memory.forget(_opening(taint, node))
        done = await self._once(
            _closing(taint, node), lambda: self.marks.taint(node.name, taint, node.uid)
        )
        if done:
            self._memory.forget(_saying(taint, node))
        return done

    def _wait_for_node(self, case: Case) -> None:
        """Raises Unavailable: the notice comes again, until the mirror shows a node of this machine that can be closed.

        A scheduled event stands on the machine and comes again by itself.
        """
        if case.machine.terminating or case.notice.kind in ANNOUNCED:
            return
        if case.notice.at is not None and self.clock.now() < case.notice.at + NODE_WAIT_SECONDS:
            raise Unavailable(f"{case.machine.key} has no node yet that could be closed")
        log.warning("no node to close", machine=case.machine.name, kind=case.notice.kind)

    async def _replace(self, case: Case) -> None:
        """INT-43: the scheduler buys the replacement first and then takes the machine away, within its budgets."""
        machine, now = case.machine, rfc3339(self.clock.now())
        if machine.terminating or keys.REPLACE_ANNOTATION in machine.annotations:
            return
        if await self._annotate(machine, keys.REPLACE_ANNOTATION, now):
            self._tell(case, REPLACE)

    async def _wait(self, case: Case) -> None:
        """The event is further away than the pool's lead time: it is written down until it is due."""
        if await self._remember(case):
            self._tell(case, WAIT)

    async def _remember(self, case: Case) -> bool:
        """Whether we wrote this event on the machine just now; of two events the earlier stands."""
        machine, new = case.machine, maintenance_of(case.notice)
        if machine.terminating or _stands(held_by(machine), new):
            return False
        self._memory.forget(_noting(machine, keys.MAINTENANCE_ANNOTATION, None))
        return await self._annotate(machine, keys.MAINTENANCE_ANNOTATION, new.text)

    async def _reopen(self, case: Case) -> None:
        """An event was called off: the machine need not wait for it, and its node is open again.

        The mirror may not show yet what the event did, and nobody calls it off a second time: so the machine is read,
        and its annotation goes last: until then a kill leaves something to repeat.
        """
        try:
            machine = await self.machines.get(case.machine.key)
        except NotFound:
            return
        held = held_by(machine)
        if machine.uid != case.machine.uid or machine.terminating:
            return
        if held is None or not ends(case.notice, held):
            return
        if case.policy.dry_run:
            self._tell(case, f"dry run, not {REOPEN}")
            return
        node, taint = self.directory.node(case.instance), taint_for(NoticeKind.SCHEDULED)
        if node is not None:
            await self._untaint(node, taint)
        for involved in self._involved(case):
            await self.recorder.tell(
                involved, NORMAL, case.action.reason, case.action.text, once=case.notice.id
            )
        self._memory.forget(_noting(machine, keys.MAINTENANCE_ANNOTATION, held.text))
        if await self._annotate(machine, keys.MAINTENANCE_ANNOTATION, None):
            self._tell(case, REOPEN)

    async def _open(self, case: Case) -> None:
        """The instance passes its status checks again: our taint goes. It alone says that we closed the node."""
        node, taint = self.directory.node(case.instance), taint_for(NoticeKind.INSTANCE_STATUS)
        if node is None or taint not in node.taints or case.machine.terminating:
            return
        if case.policy.dry_run:
            self._tell(case, f"dry run, not {REOPEN}")
            return
        if await self._once(_opening(taint, node), lambda: self._untaint(node, taint)):
            await self._event(case, NORMAL, case.action.reason, case.action.text)
            self._tell(case, REOPEN)

    async def _untaint(self, node: Node, taint: Taint) -> None:
        """Take exactly our taint off; it may be put on again at once."""
        await self.marks.untaint(node.name, taint, node.uid)
        self._memory.forget(_closing(taint, node))
        self._memory.forget(_saying(taint, node))

    async def _annotate(self, machine: Machine, key: str, value: str | None) -> bool:
        """Whether it was written just now; a machine that is gone or replaced needs nothing."""

        async def write() -> None:
            await self.machines.patch(machine, {"annotations": {key: value}})

        # A timestamp of now differs every time: for it alone the key decides.
        what = "" if key in (keys.TERMINATION_TIMESTAMP, keys.REPLACE_ANNOTATION) else value
        try:
            return await self._once(_noting(machine, key, what), write)
        except (NotFound, Conflict):
            return False

    async def _once(self, name: str, deed: Callable[[], Awaitable[None]]) -> bool:
        """Whether it was done now: not when it was done a moment ago. What fails may be tried again."""
        if not self._memory.first(name, self.clock.monotonic(), DEED_SECONDS):
            return False
        try:
            await deed()
        except BaseException:
            self._memory.forget(name)
            raise
        return True

    def _tell(self, case: Case, what: str) -> None:
        once = f"told/{case.notice.kind}/{what}/{case.machine.uid}"
        if case.policy.webhook and self._memory.first(once, self.clock.monotonic(), TOLD_SECONDS):
            node = self.directory.node(case.instance)
            name = node.name if node else ""
            self.webhook.tell(Told(case.notice.kind, case.action.reason, what, case.machine, name))

    async def _event(
        self,
        case: Case,
        event_type: str,
        reason: str,
        text: str,
        again_seconds: float = EVENT_DEDUPE_SECONDS,
        *,
        once: str = "",
    ) -> None:
        """``once``: of which occasion; empty: of this notice."""
        for involved in self._involved(case):
            await self.recorder.publish(
                involved,
                event_type,
                reason,
                text,
                dedupe_seconds=again_seconds,
                once=once or case.notice.id,
            )

    def _involved(self, case: Case) -> list[dict[str, str]]:
        """The machine and, if there is one, its node (8.3)."""
        node = self.directory.node(case.instance)
        return [to_machine(case.machine), *([to_node(node)] if node else [])]


def _closing(taint: Taint, node: Node) -> str:
    """Under which the deed is remembered."""
    return f"close/{taint.key}/{node.uid}"


def _opening(taint: Taint, node: Node) -> str:
    return f"open/{taint.key}/{node.uid}"


def _saying(taint: Taint, node: Node) -> str:
    return f"said/{taint.key}/{node.uid}"


def _noting(machine: Machine, key: str, value: str | None) -> str:
    return f"{key}={value}/{machine.uid}"


def _stands(held: Maintenance | None, new: Maintenance) -> bool:
    """Is ``held`` what the machine waits for, also now that ``new`` is announced? The same event may be moved."""
    if held is None:
        return False
    if (held.source, held.event) == (new.source, new.event):
        return int(held.start) == int(new.start)
    return held.start <= new.start
