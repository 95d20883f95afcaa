"""Carries out what a LaunchRecord says: one CreateFleet call, and what follows from its answer (F1, F19).

    answered           instances are dealt to the record's machines in order; those left short go or wait
    answered nothing   neither instances nor errors: look for its instances by tag
    no answer, 5xx, or one that is not AWS's
                       nobody knows: the record stays, the same request goes again with the same token
    throttled          nothing was done: the same
    refused            nothing was done: a new attempt with a new token
    refused, repeated  the first call may have worked all the same: look for its instances by tag
    older than 10 min  EC2 may have forgotten the token: never sent again, look by tag

A look by tag is believed that there are none only when a second one two minutes later agrees, for EC2 shows new
instances late (F20). Before every call the record's machines are read again, and the record goes if another launcher's
call is for one of them (see ``claims``). What happens to a machine is written before the record goes, so that a crash
repeats it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.launcher.launch.assignment import assign, assign_found
from services.launcher.launch.pacing import QUEUE_FULL_SECONDS, CallBudget, CallQueue
from services.launcher.launch.record import LaunchRecord, LaunchRecords, Subject
from services.launcher.launch.results import NO_CAPACITY, LaunchResults
from services.launcher.launch.turns import LaunchTurns
from services.launcher.launch.unavailable_offerings import CapacityErrors, is_shortage, reasons_of
from services.launcher.launch_template.controller import LaunchTemplates
from services.launcher.machine_writer import LaunchedInstance
from shared.bus import RetryLater
from shared.cloud.errors import (
    IDEMPOTENT_INSTANCE_TERMINATED,
    SPOT_ROLE_MISSING,
    THROTTLING_CODES,
    is_not_found,
)
from shared.cloud.ownership import TOKEN_TAG, cluster_tag
from shared.cloud.records import FleetInstance, FleetResult, Instance
from shared.cloud.session import Cloud
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.domain.nodepools import V1ALPHA5
from shared.domain.nodes import provider_instance_id
from shared.errors import (
    DovetailError,
    InsufficientCapacity,
    LaunchRejected,
    NotFound,
    Throttled,
    TransientError,
)
from shared.log import get_logger

log = get_logger(__name__)

RETRY_SECONDS = 2.0
REPEATABLE_SECONDS = 600.0
"""So long a request may be sent again with its token."""
LOOKS_APART_SECONDS = 120.0
"""EC2 may show an instance a minute and a half after its start (F20), and the call before the look may have worked."""
NAMES_SECONDS = 1.0
"""A launch waits no longer for the host names in its log."""
WRITES_AT_ONCE = 16
MOST_LOOKED = 1000
"""Records that are looked for by tag at a time; to forget them costs a minute."""
LIVE_STATES = frozenset({"pending", "running"})
Answers = dict[str, RetryLater | None]
"""By uid: None for a machine with which all is done."""


@dataclass
class LaunchSaga:
    """Sends records, one turn after the other."""

    cloud: Cloud
    cluster: str
    records: LaunchRecords
    outcomes: LaunchResults
    shortage: CapacityErrors
    templates: LaunchTemplates
    turns: CallQueue
    budget: CallBudget
    claims: LaunchTurns
    _looked: dict[str, float] = field(default_factory=dict)
    """Token -> monotonic time of the first look by tag that left machines without."""

    async def again(self, record: LaunchRecord) -> Answers:
        """Go on with a record that was found open."""
        if self.records.age(record) > REPEATABLE_SECONDS:
            return await self._look_up(record)
        wait = self.budget.wait(record.uids)
        if wait:
            return _later(record.uids, wait)
        sent = await self.turns.next()
        if sent is None:
            return _later(record.uids, QUEUE_FULL_SECONDS)
        if self.records.age(record) > REPEATABLE_SECONDS:
            return await self._look_up(record)
        return await self.send(record, sent, fresh=False)

    async def _look_up(self, record: LaunchRecord) -> Answers:
        """It is too old to be sent."""
        machines = await self.claims.hold(record, fresh=False)
        if machines is None:
            return _later(record.uids, RETRY_SECONDS)
        return await self._adopt(record, machines)

    async def send(self, record: LaunchRecord, sent: float, *, fresh: bool) -> Answers:
        """The call itself, in a turn that began at ``sent``. ``fresh``: it was never sent before."""
        machines = await self.claims.hold(record, fresh=fresh)
        if machines is None:
            return _later(record.uids, RETRY_SECONDS)
        self.budget.spend(record.uids)
        waiting = _waiting(record, machines)
        await self.shortage.reserve(record)
        try:
            result = await self.cloud.ec2.create_fleet(record.request)
        except Throttled as error:
            return self._throttled(record, sent, error)
        except TransientError as error:
            await self._report(waiting, "LaunchFailed", error.message)
            return _later(record.uids, RETRY_SECONDS)
        except DovetailError as error:
            self.turns.pace.succeeded()
            await self.shortage.settle(record, ())
            return await self._refused(record, machines, error, fresh=fresh)
        if not result.instances and not result.errors:
            return await self._unexplained(record, machines)
        self._learn(record, sent, {error.code for error in result.errors})
        return await self._answered(record, machines, result)

    def _throttled(self, record: LaunchRecord, sent: float, error: Throttled) -> Answers:
        """F17: told once per call, however many machines it is for."""
        self.shortage.metrics.launch_failures.labels(
            "", record.capacity_type, str(error.context.get("code"))
        ).inc()
        self._slow_down(record, sent)
        return _later(record.uids, max(RETRY_SECONDS, 1.0 / self.turns.pace.rate_per_second))

    def _slow_down(self, record: LaunchRecord, sent: float) -> None:
        pace = self.turns.pace
        if pace.throttled(sent, self.turns.clock.monotonic()):
            log.warning(
                "EC2 throttles launches",
                machines=len(record.subjects),
                calls_per_second=round(pace.rate_per_second, 2),
            )

    def _learn(self, record: LaunchRecord, sent: float, codes: set[str]) -> None:
        """What a call that was taken tells of the launches it made: throttled (F17), or without a template (LCH-25)."""
        if codes & THROTTLING_CODES:
            self._slow_down(record, sent)
        else:
            self.turns.pace.succeeded()
        if any(map(is_not_found, codes)):
            self.templates.forget()

    async def _answered(
        self, record: LaunchRecord, machines: Mapping[str, Machine], result: FleetResult
    ) -> Answers:
        """LCH-54, LCH-61: instances and errors may come together, both count."""
        await self.shortage.settle(record, result.instances)
        owned = {
            uid: provider_instance_id(machine.provider_id)
            for uid, machine in machines.items()
            if machine.provider_id
        }
        pairs, short = assign(record, result.instances, owned)
        known = ((machines.get(subject.uid), one) for subject, one in pairs)
        present = [(machine, one) for machine, one in known if machine is not None]
        names = await self._host_names(present)
        await _all(
            self.outcomes.launched(machine, _given(record, one, names.get(one.id, "")))
            for machine, one in present
        )
        await self.shortage.remember(record, result)
        answers: Answers = dict.fromkeys(record.uids)
        if short:
            answers |= await self._fall_short(record, machines, short, result)
        await self._close(record)
        return answers

    async def _unexplained(self, record: LaunchRecord, machines: Mapping[str, Machine]) -> Answers:
        """EC2 says why it launches nothing. Without a reason the instances may be there all the same: look for them."""
        log.warning("CreateFleet names neither instances nor errors", machines=len(machines))
        return await self._adopt(record, machines)

    async def _host_names(self, present: Iterable[tuple[Machine, FleetInstance]]) -> dict[str, str]:
        """LCH-72 [5]: by instance id, for the log alone: what EC2 does not tell at once stays untold."""
        ids = [one.id for machine, one in present if machine.generation_api == V1ALPHA5]
        if not ids:
            return {}
        try:
            async with asyncio.timeout(NAMES_SECONDS):
                found = await self.cloud.ec2.instances(ids=ids)
        except (DovetailError, TimeoutError) as error:
            log.debug("cannot look up host names", error=str(error))
            return {}
        return {instance.id: instance.private_dns_name for instance in found}

    async def _fall_short(
        self,
        record: LaunchRecord,
        machines: Mapping[str, Machine],
        short: tuple[Subject, ...],
        result: FleetResult,
    ) -> Answers:
        """LCH-64: without capacity the machine goes. With another error, or with none, it is another attempt."""
        left = _waiting(record, machines, {subject.uid for subject in short})
        reasons = reasons_of(result.errors)
        if is_shortage(result.errors):
            await _all(self.outcomes.give_up(one, NO_CAPACITY, reasons) for one in left)
            return {}
        if result.errors:
            await self._report(left, _first_code(result), reasons)
        return await self._start_over(record, left)

    async def _refused(
        self,
        record: LaunchRecord,
        machines: Mapping[str, Machine],
        error: DovetailError,
        *,
        fresh: bool,
    ) -> Answers:
        """The whole call failed for good."""
        code = str(error.context.get("code"))
        if isinstance(error, NotFound):
            self.templates.forget()  # LCH-25: the record pins one that is gone
        if code == IDEMPOTENT_INSTANCE_TERMINATED:
            return await self._adopt(record, machines, certain=True)
        if not fresh or "Idempotent" in code:
            return await self._adopt(record, machines)
        waiting = _waiting(record, machines)
        if isinstance(error, InsufficientCapacity) or code == SPOT_ROLE_MISSING:
            await self.shortage.remember_call(record, code)
        if isinstance(error, InsufficientCapacity):
            await _all(self.outcomes.give_up(one, NO_CAPACITY, error.message) for one in waiting)
            await self._close(record)
            return dict.fromkeys(record.uids)
        reason = code if isinstance(error, LaunchRejected) else type(error).__name__
        await self._report(waiting, reason, error.message)
        answers = await self._start_over(record, waiting)
        await self._close(record)
        return answers

    async def _adopt(
        self, record: LaunchRecord, machines: Mapping[str, Machine], *, certain: bool = False
    ) -> Answers:
        """Whatever lives with this token belongs to the record's machines. ``certain``: EC2 said there is no more."""
        tags = {cluster_tag(self.cluster): "owned", TOKEN_TAG: record.token}
        found = await self.cloud.ec2.instances(tags=tags)
        alive = [instance for instance in found if instance.state in LIVE_STATES]
        owned = [machine.provider_id for machine in machines.values()]
        pairs = assign_found(_waiting(record, machines), alive, owned)
        for one, it in pairs:
            if not await self.outcomes.launched(one, _found(record, it)):
                return _later(record.uids, RETRY_SECONDS)  # somebody else deals them out now
        served = {machine.uid for machine, _ in pairs}
        left = [one for one in _waiting(record, machines) if one.uid not in served]
        now = self.turns.clock.monotonic()
        if len(self._looked) >= MOST_LOOKED:
            self._looked.clear()
        first = self._looked.setdefault(record.token, now)
        if left and not certain and now - first < LOOKS_APART_SECONDS:
            return _later((one.uid for one in left), LOOKS_APART_SECONDS - (now - first))
        answers = await self._start_over(record, left)
        await self._close(record)
        return answers

    async def _start_over(self, record: LaunchRecord, machines: Iterable[Machine]) -> Answers:
        listed = list(machines)
        await _all(self.outcomes.next_attempt(one, record.attempt + 1) for one in listed)
        return _later((one.uid for one in listed), RETRY_SECONDS)

    async def _close(self, record: LaunchRecord) -> None:
        await self.records.drop(record.token)
        self._looked.pop(record.token, None)

    async def _report(self, machines: list[Machine], reason: str, message: str) -> None:
        """On every machine, but one event for the call."""
        await _all(
            self.outcomes.report(machine, reason, message, event=machine is machines[0])
            for machine in machines
        )


def _waiting(
    record: LaunchRecord, machines: Mapping[str, Machine], uids: Iterable[str] | None = None
) -> list[Machine]:
    """The record's machines that are there and have no instance."""
    wanted = set(record.uids if uids is None else uids)
    return [
        machine
        for uid in record.uids
        if uid in wanted and (machine := machines.get(uid)) is not None and is_waiting(machine)
    ]


def is_waiting(machine: Machine) -> bool:
    """Does it still want an instance?"""
    return not machine.provider_id and not machine.terminating


def _given(record: LaunchRecord, one: FleetInstance, hostname: str) -> LaunchedInstance:
    reservation = record.reservations.get(one.launch_template_id, "")
    return LaunchedInstance(
        id=one.id,
        instance_type=one.instance_type,
        zone=one.zone or "",
        capacity_type=keys.RESERVED if reservation else one.capacity_type,
        image=record.images.get(one.launch_template_id, ""),
        reservation_id=reservation,
        token=record.token,
        hostname=hostname,
    )


def _found(record: LaunchRecord, one: Instance) -> LaunchedInstance:
    reservation = one.capacity_reservation_id if record.reservations else ""
    return LaunchedInstance(
        id=one.id,
        instance_type=one.instance_type,
        zone=one.zone,
        capacity_type=keys.RESERVED if reservation else one.capacity_type,
        image=one.image_id,
        reservation_id=reservation,
        token=record.token,
        hostname=one.private_dns_name,
    )


def _first_code(result: FleetResult) -> str:
    return min((error.code for error in result.errors if error.code), default="LaunchFailed")


def _later(uids: Iterable[str], seconds: float) -> Answers:
    return {uid: RetryLater(seconds) for uid in uids}


async def _all(works: Iterable[Coroutine[Any, Any, object]]) -> None:
    """A few at a time. The first error is raised when all have ended: what could be written down is."""
    gate = asyncio.Semaphore(WRITES_AT_ONCE)

    async def one(work: Coroutine[Any, Any, object]) -> None:
        async with gate:
            await work

    ended = await asyncio.gather(*(one(work) for work in works), return_exceptions=True)
    for found in ended:
        if isinstance(found, BaseException):
            raise found
