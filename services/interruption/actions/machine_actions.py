"""What is done with one machine because of one notice; every action may be repeated without effect (INT-20..23).

Every write names the UID that it means, because the mirror may be behind. What an action leaves to be done stands on
the machine or its node, where a restart finds it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.interruption.actions.notifier import Notifier
from services.interruption.actions.policy import (
    NORMAL,
    WARNING,
    Action,
    Policy,
    Step,
    caused,
    policy_of,
    step_for,
)
from services.interruption.actions.webhook import Report, Webhook
from services.interruption.directory import InstanceLookup
from services.interruption.notices.notice import (
    ANNOUNCED,
    Maintenance,
    Notice,
    NoticeKind,
    ends,
    held_by,
    maintenance_of,
    taint_for,
)
from shared.api.core.references import to_machine, to_node
from shared.concurrency.clock import rfc3339
from shared.concurrency.expiring import Expiring
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.errors import Conflict, NotFound, Unavailable
from shared.kube.machines import Machines
from shared.kube.node_taints import NodeTaints
from shared.kube.reading import or_none
from shared.log import get_logger
from shared.runtime.environment import Environment
from shared.settings import InterruptionSettings

log = get_logger(__name__)

EVENT_DEDUPE_SECONDS = 120.0
REPORT_DEDUPE_SECONDS = 3600.0
"""For what is announced again and again while it is only reported or waited for."""
MIRROR_LAG_SECONDS = 60.0
"""After this long the mirror must show a write; what it does not show then is written again."""
NODE_WAIT_SECONDS = 900.0
"""A machine that has no node this long after a notice will hardly get one."""
DRY = "dry run: nothing is done"


@dataclass(frozen=True)
class Case:
    """A machine, a notice about its instance, and what its pool wants."""

    machine: Machine
    instance: str
    notice: Notice
    action: Action
    policy: Policy


@dataclass
class MachineActions:
    """Does what ``policy.step_for`` says."""

    env: Environment[InterruptionSettings]
    machines: Machines
    nodes: NodeTaints
    directory: InstanceLookup
    notifier: Notifier
    webhook: Webhook
    deleted: int = 0
    """Machines whose deletion was ordered."""
    _recent: Expiring[bool] = field(default_factory=Expiring)
    """What this process did a moment ago, while the mirror may not show it yet."""

    async def act(self, machine: Machine, instance: str, action: Action, notice: Notice) -> None:
        """Act on one machine. Raises the translated error of what failed."""
        policy = policy_of(await self.directory.pool(machine), self.env.settings)
        case = Case(machine, instance, notice, action, policy)
        step = step_for(notice, policy, now=self.env.clock.now())
        if step == Step.REOPEN:
            healed = notice.kind == NoticeKind.HEALED
            await (self._reopen_healed if healed else self._reopen_after_event)(case)
            return
        text = f"{action.text} ({DRY}, not {step})" if policy.dry_run else action.text
        again = (
            EVENT_DEDUPE_SECONDS
            if step == Step.DELETE and not policy.dry_run
            else REPORT_DEDUPE_SECONDS
        )
        await self._event(case, action.event_type, action.reason, text, again)
        if policy.dry_run:
            self._report(case, f"dry run, not {step}")
            return
        self._mark_unavailable(case, step)
        await self._do(step, case)

    async def _do(self, step: Step, case: Case) -> None:
        actions = {
            Step.DELETE: self._delete,
            Step.CORDON: self._cordon,
            Step.REPLACE: self._replace,
            Step.WAIT: self._wait,
            Step.REPORT: self._only_report,
        }
        await actions[step](case)
        self.env.metrics.count_action(drains=step in (Step.DELETE, Step.REPLACE))

    def _mark_unavailable(self, case: Case, step: Step) -> None:
        """The replacement must not be bought from the offering that EC2 takes back, or recommends to leave."""
        shortage = keys.SPOT if step == Step.REPLACE else case.action.shortage
        machine = case.machine
        if shortage and machine.zone and machine.instance_type:
            self.notifier.mark_unavailable((shortage, machine.instance_type, machine.zone))

    async def _only_report(self, case: Case) -> None:
        self._report(case, Step.REPORT)

    async def _delete(self, case: Case) -> None:
        if case.action.at_once:
            await self._end_now(case.machine)
        if case.notice.kind in ANNOUNCED and case.notice.at is None:
            # Written before the deletion: after a kill in between it is the only proof of why the machine goes.
            await self._write_event(case)
        ordered = await self._ordered(case)
        if ordered:
            self._report_deletion(case)
        if ordered or caused(case.notice, case.machine, case.policy):
            text = "Interruption triggered termination"
            await self._event(
                case,
                WARNING,
                "TerminatingOnInterruption",
                text,
                REPORT_DEDUPE_SECONDS,
                once=Step.DELETE,
            )

    def _report_deletion(self, case: Case) -> None:
        self.deleted += 1
        machine = case.machine
        log.info(
            "initiating delete from interruption message",
            machine=machine.name,
            kind=case.notice.kind,
            instance=case.instance,
        )
        self.env.metrics.count_disrupted(machine, case.notice.kind)
        self.notifier.deleted(machine, case.instance, case.notice, self._trace(case))
        self._report(case, Step.DELETE)

    def _trace(self, case: Case) -> str:
        """The first span of the trace of the machine's end: from the notice until the machine was deleted."""
        machine, now = case.machine, self.env.clock.now()
        made = machine.annotations.get(keys.TRACE_ANNOTATION, "")
        return self.env.tracer.record(
            "interruption",
            parent="",
            links=[made] if made else (),
            start=min(case.notice.at or now, now),
            end=now,
            machine=machine.name,
            pool=machine.pool,
            instance=case.instance,
            kind=case.notice.kind.value,
        )

    async def _ordered(self, case: Case) -> bool:
        """True when this call ordered the machine's deletion, and nobody before it (INT-21)."""
        if case.machine.terminating:
            return False
        gone = False

        async def delete() -> None:
            nonlocal gone
            gone = not await self.machines.delete(case.machine)

        return await self._once(f"delete/{case.machine.uid}", delete) and not gone

    async def _end_now(self, machine: Machine) -> None:
        """End the drain at once: the termination timestamp is now (TRM-10). An earlier timestamp stays."""
        now = self.env.clock.now()
        if machine.terminate_at is None or machine.terminate_at > now:
            await self._annotate(machine, keys.TERMINATION_TIMESTAMP, rfc3339(now))

    async def _cordon(self, case: Case) -> None:
        """Close the node by Dovetail's taint and leave its pods alone (INT-41)."""
        node = self.directory.node(case.instance)
        if case.notice.kind in ANNOUNCED:
            await self._write_event(case)
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
        # Also without a write of this call: the process that closed the node may have been killed before its event.
        if self._recent.begin(
            _event_key(taint, node), self.env.clock.monotonic(), REPORT_DEDUPE_SECONDS
        ):
            await self._event(case, WARNING, "Cordon", f"Node is closed by the taint {taint.key}")
        if done:
            self._report(case, Step.CORDON)

    async def _close(self, node: Node, taint: Taint) -> bool:
        """True when this call put the taint on. Raises NotFound."""
        self._recent.forget(_open_key(taint, node))
        done = await self._once(
            _close_key(taint, node), lambda: self.nodes.taint(node.name, taint, node.uid)
        )
        if done:
            self._recent.forget(_event_key(taint, node))
        return done

    def _wait_for_node(self, case: Case) -> None:
        """Raises Unavailable while a node may still join: the notice then comes again.

        A scheduled event needs no repeat: it stands on the machine, and its source finds it there.
        """
        if case.machine.terminating or case.notice.kind in ANNOUNCED:
            return
        if case.notice.at is not None and self.env.clock.now() < case.notice.at + NODE_WAIT_SECONDS:
            raise Unavailable(f"{case.machine.key} has no node yet that could be closed")
        log.warning("no node to close", machine=case.machine.name, kind=case.notice.kind)

    async def _replace(self, case: Case) -> None:
        """Ask the scheduler to buy the replacement first and then delete the machine, within its budgets (INT-43)."""
        machine, now = case.machine, rfc3339(self.env.clock.now())
        if machine.terminating or keys.REPLACE_ANNOTATION in machine.annotations:
            return
        if await self._annotate(machine, keys.REPLACE_ANNOTATION, now):
            self._report(case, Step.REPLACE)

    async def _wait(self, case: Case) -> None:
        """The event is further away than the pool's lead time: the machine keeps it until it is due."""
        if await self._write_event(case):
            self._report(case, Step.WAIT)

    async def _write_event(self, case: Case) -> bool:
        """True when this call wrote the event on the machine; of two events the earlier stays."""
        machine, new = case.machine, maintenance_of(case.notice)
        if machine.terminating or _stands(held_by(machine), new):
            return False
        self._recent.forget(_annotation_key(machine, keys.MAINTENANCE_ANNOTATION, None))
        return await self._annotate(machine, keys.MAINTENANCE_ANNOTATION, new.text)

    async def _reopen_after_event(self, case: Case) -> None:
        """A scheduled event was cancelled: the machine need not wait for it, and its node is opened again.

        The machine is read from the API server: the mirror may not show yet what the event's notice wrote, and a
        cancellation is announced only once.
        """
        machine = await or_none(self.machines.get(case.machine.key))
        if machine is None:
            return
        held = held_by(machine)
        if machine.uid != case.machine.uid or machine.terminating:
            return
        if held is None or not ends(case.notice, held):
            return
        if case.policy.dry_run:
            self._report(case, f"dry run, not {Step.REOPEN}")
            return
        node, taint = self.directory.node(case.instance), taint_for(NoticeKind.SCHEDULED)
        if node is not None:
            await self._untaint(node, taint)
        for involved in self._involved(case):
            await self.env.recorder.write_now(
                involved, NORMAL, case.action.reason, case.action.text, once=case.notice.id
            )
        # The annotation goes last: as long as it stands, a killed process leaves something that finds the rest.
        self._recent.forget(_annotation_key(machine, keys.MAINTENANCE_ANNOTATION, held.text))
        if await self._annotate(machine, keys.MAINTENANCE_ANNOTATION, None):
            self._report(case, Step.REOPEN)

    async def _reopen_healed(self, case: Case) -> None:
        """The status checks pass again: the taint goes. It is the only record of why the node was closed."""
        node, taint = self.directory.node(case.instance), taint_for(NoticeKind.INSTANCE_STATUS)
        if node is None or taint not in node.taints or case.machine.terminating:
            return
        if case.policy.dry_run:
            self._report(case, f"dry run, not {Step.REOPEN}")
            return
        if await self._once(_open_key(taint, node), lambda: self._untaint(node, taint)):
            await self._event(case, NORMAL, case.action.reason, case.action.text)
            self._report(case, Step.REOPEN)

    async def _untaint(self, node: Node, taint: Taint) -> None:
        """Take exactly this taint off; it may be put on again at once."""
        await self.nodes.untaint(node.name, taint, node.uid)
        self._recent.forget(_close_key(taint, node))
        self._recent.forget(_event_key(taint, node))

    async def _annotate(self, machine: Machine, key: str, value: str | None) -> bool:
        """True when this call wrote it; a machine that is gone or replaced needs no write."""

        async def write() -> None:
            await self.machines.patch(machine, {"annotations": {key: value}})

        # The present time differs at each attempt, so these two are remembered by their key alone.
        what = "" if key in (keys.TERMINATION_TIMESTAMP, keys.REPLACE_ANNOTATION) else value
        try:
            return await self._once(_annotation_key(machine, key, what), write)
        except (NotFound, Conflict):
            return False

    async def _once(self, name: str, write: Callable[[], Awaitable[None]]) -> bool:
        """True when ``write`` was made now, False when it was made a moment ago. One that fails may be tried again."""
        if not self._recent.begin(name, self.env.clock.monotonic(), MIRROR_LAG_SECONDS):
            return False
        try:
            await write()
        except BaseException:
            self._recent.forget(name)
            raise
        return True

    def _report(self, case: Case, what: str) -> None:
        once = f"reported/{case.notice.kind}/{what}/{case.machine.uid}"
        if case.policy.webhook and self._recent.begin(
            once, self.env.clock.monotonic(), REPORT_DEDUPE_SECONDS
        ):
            node = self.directory.node(case.instance)
            name = node.name if node else ""
            self.webhook.report(
                Report(case.notice.kind, case.action.reason, what, case.machine, name)
            )

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
        """``once``: names the occasion, which has one event; empty: the notice does."""
        for involved in self._involved(case):
            await self.env.recorder.publish(
                involved,
                event_type,
                reason,
                text,
                dedupe_seconds=again_seconds,
                once=once or case.notice.id,
            )

    def _involved(self, case: Case) -> list[dict[str, str]]:
        """The objects of an event: the machine and, if there is one, its node."""
        node = self.directory.node(case.instance)
        return [to_machine(case.machine), *([to_node(node)] if node else [])]


def _close_key(taint: Taint, node: Node) -> str:
    return f"close/{taint.key}/{node.uid}"


def _open_key(taint: Taint, node: Node) -> str:
    return f"open/{taint.key}/{node.uid}"


def _event_key(taint: Taint, node: Node) -> str:
    return f"event/{taint.key}/{node.uid}"


def _annotation_key(machine: Machine, key: str, value: str | None) -> str:
    return f"{key}={value}/{machine.uid}"


def _stands(held: Maintenance | None, new: Maintenance) -> bool:
    """Does ``held`` stay on the machine although ``new`` is announced? The same event may have another time now."""
    if held is None:
        return False
    if (held.source, held.event) == (new.source, new.event):
        return int(held.start) == int(new.start)
    return held.start <= new.start
