"""The launch saga: one CreateFleet call, from its record to its result (F1, F14, F19). It reads top to bottom:

    1. wait until a call may go (``pacing``)
    2. read the scheduler's epoch again: after a change of leader the machines are looked at anew
    3. write a LaunchRecord with the exact request and its client token: no record, no call
    4. take the turn: read records and machines again, another launcher may have been faster (``record_store``)
    5. CreateFleet with that token: a repeat of the same call gives the same instances
    6. write the instances, or what went wrong, to the machines (``results``)
    7. delete the record

A saga that was stopped is resumed from its record: steps 1, 4 to 7. What EC2 says decides step 6:

    answered           instances are assigned to the record's machines in order; those left without are deleted or wait
    answered, repeated the same, but for instances that have ended since the first answer; of one that was stopped the
                       machine is deleted, and with it the instance, before its pods get another machine
    answered nothing   neither instances nor errors: list the instances with its tag
    no answer, 5xx, or one that is not AWS's
                       nobody knows: the record stays, the same request is sent again with the same token
    throttled          nothing was done: the same
    refused            nothing was done: a new attempt with a new token
    refused, repeated  the other call may have worked all the same: list the instances with its tag
    older than 10 min  EC2 may have forgotten the token: never sent again, list the instances with its tag

A list without instances is believed only when a second one 200 s later agrees, for EC2 lists new instances late
(F20).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from services.launcher.launch.admission import Admission
from services.launcher.launch.assignment import (
    LIVE_STATES,
    Since,
    assign,
    assign_found,
    from_answer,
    from_listing,
    since_answer,
)
from services.launcher.launch.call_trace import trace_call
from services.launcher.launch.fleet import (
    LaunchRecord,
    Subject,
)
from services.launcher.launch.pacing import QUEUE_FULL_SECONDS, CallBudget, CallQueue
from services.launcher.launch.record_store import LaunchRecords
from services.launcher.launch.request import LaunchRequest, record_of
from services.launcher.launch.results import NO_CAPACITY, LaunchResults
from services.launcher.launch.subnets import SubnetReservations
from services.launcher.launch.unavailable_offerings import CapacityErrors, is_shortage, reasons_of
from services.launcher.launch_template.controller import LaunchTemplates
from services.launcher.ports import Ports
from shared.cloud.client.errors import (
    IDEMPOTENT_INSTANCE_TERMINATED,
    SPOT_ROLE_MISSING,
    THROTTLING_CODES,
    is_not_found,
)
from shared.cloud.ec2.ended_instances import STOPPED_REASON, STOPPED_TEXT
from shared.cloud.ec2.ownership import STOPPED_STATES, TOKEN_TAG, cluster_tag
from shared.cloud.ec2.records import ALL_LISTED_SECONDS, FleetInstance, FleetResult
from shared.concurrency.parallel import in_parallel
from shared.domain.machines.machine import Machine
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
from shared.redis.bus import RetryLater

log = get_logger(__name__)

RETRY_SECONDS = 2.0
REPEATABLE_SECONDS = 600.0
"""So long a request may be sent again with its token."""
ENDED_LISTED_SECONDS = 60.0
"""So long at least EC2 lists an instance that has ended."""
WRITES_AT_ONCE = 16
MOST_LISTED = 1000
"""Records whose first list is remembered; to forget them costs these seconds each."""
Answers = dict[str, RetryLater | None]
"""By uid: None for a machine with which all is done."""
_write_all = partial(in_parallel, most=WRITES_AT_ONCE)


@dataclass
class LaunchSaga:
    """Carries out calls, one after the other."""

    ports: Ports
    admission: Admission
    records: LaunchRecords
    queue: CallQueue
    budget: CallBudget
    subnets: SubnetReservations
    capacity_errors: CapacityErrors
    templates: LaunchTemplates
    results: LaunchResults
    _listed: dict[str, float] = field(default_factory=dict)
    """Token -> monotonic time of the first list by tag that left machines without an instance."""

    async def begin(self, group: Sequence[LaunchRequest], epoch: int) -> Answers:
        """Launch machines with equal requests. ``epoch``: under which they were admitted."""
        waits = {one.machine.uid: self.budget.wait([one.machine.uid]) for one in group}
        answers: Answers = {uid: RetryLater(wait) for uid, wait in waits.items() if wait}
        ready = [one for one in group if one.machine.uid not in answers]
        uids = [one.machine.uid for one in ready]
        if not ready:
            return answers
        sent = await self.queue.wait()
        if sent is None:
            return answers | retry(uids, QUEUE_FULL_SECONDS)
        # Read after the wait, not before: a scheduler may have lost its lease while the call was in the queue (F14).
        if await self.admission.epoch() != epoch:
            return answers | retry(uids)
        # The record before the call: a launcher that dies in between leaves a record, never an unknown instance.
        now = await self.ports.shared_now()
        record, fresh = await self.records.write(record_of(ready, epoch, now))
        return answers | await self.send(record, sent, fresh=fresh)

    async def resume(self, record: LaunchRecord) -> Answers:
        """Go on with a record that was found open."""
        if await self.records.age(record) > REPEATABLE_SECONDS:
            return await self._find(record)
        wait = self.budget.wait(record.uids)
        if wait:
            return retry(record.uids, wait)
        sent = await self.queue.wait()
        if sent is None:
            return retry(record.uids, QUEUE_FULL_SECONDS)
        # Asked again, because the record may have become too old in the queue.
        if await self.records.age(record) > REPEATABLE_SECONDS:
            return await self._find(record)
        return await self.send(record, sent, fresh=False)

    async def send(self, record: LaunchRecord, sent: float, *, fresh: bool) -> Answers:
        """Take the turn, make the call, and write what EC2 says. ``sent``: when the queue let the call go, in monotonic
        seconds; ``fresh``: the record was never sent before.
        """
        machines = await self.records.take_turn(record, fresh=fresh)
        if machines is None:
            return retry(record.uids)
        if self.records.is_of_another(record):
            waiting = _waiting(record, machines)
            await _write_all(self.results.repeats(one, record.token) for one in waiting)
        self.budget.spend(record.uids)
        await self.subnets.reserve(record)
        try:
            result = await self._call(record, machines)
        except Throttled as error:
            return self._throttled(record, sent, error)
        except TransientError as error:
            # Nobody knows whether EC2 took the call, so the record stays and its token makes a repeat harmless.
            await self._report(_waiting(record, machines), "LaunchFailed", error.message)
            return retry(record.uids)
        except DovetailError as error:
            self.queue.succeeded()
            await self.subnets.settle(record, ())
            return await self._refused(record, machines, error, fresh=fresh)
        if not result.instances and not result.errors:
            # EC2 says why it launches nothing. Without a reason the instances may exist all the same.
            log.warning("CreateFleet names neither instances nor errors", machines=len(machines))
            return await self._adopt(record, machines)
        self._learn(record, sent, {error.code for error in result.errors})
        return await self._answered(record, machines, result, fresh=fresh)

    async def _call(self, record: LaunchRecord, machines: Mapping[str, Machine]) -> FleetResult:
        began = self.ports.clock.now()
        try:
            result = await self.ports.cloud.ec2.create_fleet(record.request)
        except DovetailError as error:
            trace_call(self.ports, machines.values(), began, result=None, error=error.message)
            raise
        trace_call(self.ports, machines.values(), began, result=result, error="")
        return result

    async def _answered(
        self,
        record: LaunchRecord,
        machines: Mapping[str, Machine],
        result: FleetResult,
        *,
        fresh: bool,
    ) -> Answers:
        """Instances and errors may come together, both count (LCH-54, LCH-61)."""
        await self.subnets.settle(record, result.instances)
        owned = {
            uid: provider_instance_id(machine.provider_id)
            for uid, machine in machines.items()
            if machine.provider_id
        }
        pairs, without = assign(record, result.instances, owned)
        # Who has its instance already keeps it; an instance that ended then is found like any other.
        asked = [] if fresh else [pair for pair in pairs if pair[0].uid not in owned]
        since = await self._since_answer(record, asked)
        without += tuple(subject for subject, _ in pairs if subject.uid in since.ended)
        pairs = [pair for pair in pairs if pair[0].uid not in since.ended | since.unsure]
        known = ((machines.get(subject.uid), one) for subject, one in pairs)
        present = [(machine, one) for machine, one in known if machine is not None]
        names = await self.results.host_names(present)
        await _write_all(
            self.results.launched(machine, from_answer(record, one, names.get(one.id, "")))
            for machine, one in present
        )
        await self._give_up_stopped(one for one, _ in present if one.uid in since.stopped)
        # Before machines are given up: their pods are planned anew at once, and without what was refused now.
        await self.capacity_errors.record_fleet(record, result)
        answers: Answers = dict.fromkeys(record.uids)
        if without:
            answers |= await self._without_instance(record, machines, without, result)
        if since.unsure:
            return answers | retry(since.unsure)
        await self._close(record)
        return answers

    async def _since_answer(
        self, record: LaunchRecord, pairs: Sequence[tuple[Subject, FleetInstance]]
    ) -> Since:
        """As ``since_answer``. What two lists do not show has ended (F20)."""
        if not pairs:
            return Since(set(), set(), set())
        found = await self.ports.cloud.ec2.instances(ids=[one.id for _, one in pairs])
        young = await self.records.age(record) < ENDED_LISTED_SECONDS
        since = since_answer(pairs, {i.id: i.state for i in found}, lists_ended=young)
        if since.unsure and self._seconds_since_first_list(record.token) >= ALL_LISTED_SECONDS:
            return Since(since.ended | since.unsure, set(), since.stopped)
        return since

    async def _give_up_stopped(self, machines: Iterable[Machine]) -> None:
        """Its notice came before the machine had the instance, so nobody acts on that. Where a launcher dies before
        this, the sweep finds the machine."""
        await _write_all(
            self.results.give_up(one, STOPPED_REASON, STOPPED_TEXT) for one in machines
        )

    async def _without_instance(
        self,
        record: LaunchRecord,
        machines: Mapping[str, Machine],
        without: tuple[Subject, ...],
        result: FleetResult,
    ) -> Answers:
        """Without capacity the machine is deleted (LCH-64). After another error, or none, it gets another attempt."""
        left = _waiting(record, machines, {subject.uid for subject in without})
        reasons = reasons_of(result.errors)
        if is_shortage(result.errors):
            await _write_all(self.results.give_up(one, NO_CAPACITY, reasons) for one in left)
            return {}
        if result.errors:
            codes = (error.code for error in result.errors if error.code)
            await self._report(left, min(codes, default="LaunchFailed"), reasons)
        return await self._next_attempt(record, left)

    def _throttled(self, record: LaunchRecord, sent: float, error: Throttled) -> Answers:
        """Counted once per call, however many machines it is for (F17)."""
        code = str(error.context.get("code"))
        self.capacity_errors.count(record, code)
        self._slow_down(record, sent)
        return retry(record.uids, max(RETRY_SECONDS, 1.0 / self.queue.rate_per_second))

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
            self.templates.forget()  # LCH-25: the record names a template that is gone
        if code == IDEMPOTENT_INSTANCE_TERMINATED:
            return await self._adopt(record, machines, certain=True)
        if not fresh or "Idempotent" in code or await self.records.is_repeated(record):
            # Another call may have worked, of this launcher or of another one, and only its repeat is refused.
            return await self._adopt(record, machines)
        waiting = _waiting(record, machines)
        if isinstance(error, InsufficientCapacity) or code == SPOT_ROLE_MISSING:
            await self.capacity_errors.record_call(record, code)
        if isinstance(error, InsufficientCapacity):
            await _write_all(
                self.results.give_up(one, NO_CAPACITY, error.message) for one in waiting
            )
            await self._close(record)
            return dict.fromkeys(record.uids)
        reason = code if isinstance(error, LaunchRejected) else type(error).__name__
        await self._report(waiting, reason, error.message)
        answers = await self._next_attempt(record, waiting)
        await self._close(record)
        return answers

    async def _find(self, record: LaunchRecord) -> Answers:
        """The record is too old to be sent: list what its call started."""
        machines = await self.records.take_turn(record, fresh=False)
        if machines is None:
            return retry(record.uids)
        return await self._adopt(record, machines)

    async def _adopt(
        self, record: LaunchRecord, machines: Mapping[str, Machine], *, certain: bool = False
    ) -> Answers:
        """Assign the live instances with the record's token to its machines. ``certain``: EC2 reported that
        there are no more than it lists.
        """
        tags = {cluster_tag(self.ports.settings.cluster_name): "owned", TOKEN_TAG: record.token}
        found = await self.ports.cloud.ec2.instances(tags=tags)
        alive = [instance for instance in found if instance.state in LIVE_STATES]
        owned = [machine.provider_id for machine in machines.values()]
        pairs = assign_found(_waiting(record, machines), alive, owned)
        for machine, instance in pairs:
            if not await self.results.launched(machine, from_listing(record, instance)):
                # Another launcher assigns them now. To go on could give one machine two instances.
                return retry(record.uids)
        stopped = [machine for machine, one in pairs if one.state in STOPPED_STATES]
        await self._give_up_stopped(stopped)
        served = {machine.uid for machine, _ in pairs}
        left = [one for one in _waiting(record, machines) if one.uid not in served]
        since_first_list = self._seconds_since_first_list(record.token)
        if left and not certain and since_first_list < ALL_LISTED_SECONDS:
            return retry((one.uid for one in left), ALL_LISTED_SECONDS - since_first_list)
        answers = await self._next_attempt(record, left)
        await self._close(record)
        return answers

    def _seconds_since_first_list(self, token: str) -> float:
        now = self.ports.clock.monotonic()
        if len(self._listed) >= MOST_LISTED:
            self._listed.clear()
        return now - self._listed.setdefault(token, now)

    async def _next_attempt(self, record: LaunchRecord, machines: Iterable[Machine]) -> Answers:
        """Written before the record is deleted: a machine without a record must not repeat a failed call's token."""
        listed = list(machines)
        await _write_all(self.results.next_attempt(one, record.attempt + 1) for one in listed)
        return retry(one.uid for one in listed)

    async def _close(self, record: LaunchRecord) -> None:
        """Always last: while the record exists, a crash repeats what is written to the machines."""
        await self.records.drop(record.token)
        self._listed.pop(record.token, None)

    def _learn(self, record: LaunchRecord, sent: float, codes: set[str]) -> None:
        """EC2 took the call, but may have throttled the launches it made (F17) or missed a template (LCH-25)."""
        if codes & THROTTLING_CODES:
            self._slow_down(record, sent)
        else:
            self.queue.succeeded()
        if any(map(is_not_found, codes)):
            self.templates.forget()

    def _slow_down(self, record: LaunchRecord, sent: float) -> None:
        if self.queue.throttled(sent):
            log.warning(
                "EC2 throttles launches",
                machines=len(record.subjects),
                calls_per_second=round(self.queue.rate_per_second, 2),
            )

    async def _report(self, machines: list[Machine], reason: str, message: str) -> None:
        """On every machine, but one event for the call."""
        await _write_all(
            self.results.report(machine, reason, message, event=machine is machines[0])
            for machine in machines
        )


def is_waiting(machine: Machine) -> bool:
    """Does it still want an instance?"""
    return not machine.provider_id and not machine.terminating


def retry(uids: Iterable[str], seconds: float | None = None) -> Answers:
    """The same answer for all: ask again after this time; without one, later with each attempt. So what lasts for
    minutes costs few attempts, and the timed listing sees its end."""
    return {uid: RetryLater(seconds) for uid in uids}


def _waiting(
    record: LaunchRecord, machines: Mapping[str, Machine], uids: Iterable[str] | None = None
) -> list[Machine]:
    """The record's machines that exist and have no instance."""
    desired = set(record.uids if uids is None else uids)
    return [
        machine
        for uid in record.uids
        if uid in desired and (machine := machines.get(uid)) is not None and is_waiting(machine)
    ]
