"""The launch saga: intent, effect, record (F1).

    Machines without an instance are collected for a moment (LCH-54), then one round is made for all of them:
    1. look: open LaunchRecords first, then Machines, so that a launch which ends meanwhile shows one of its traces
    2. a Machine in an open record: go on with that record
    3. else work out its request; Machines with equal requests go into one call
    4. write a LaunchRecord with the exact request and its client token; no record, no call
    5. CreateFleet with that token: a repeat of the same call gives the same instances
    6. write the instances to the Machines' status and labels, delete the record, tell the scheduler

Stopped dead anywhere, the next look at any of the Machines (by message or by timed listing) finds the record and goes
on from 5. Looks and decisions of one process come one after the other, so that no two rounds spend the same room; the
calls run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from services.launcher.launch.admission import NotNow, StaleEpoch
from services.launcher.launch.fleet import addressed, launch_token, overrides_of
from services.launcher.launch.limits import PoolLimits, Reservation, largest
from services.launcher.launch.pacing import QUEUE_FULL_SECONDS
from services.launcher.launch.record import LaunchRecord, subjects_of
from services.launcher.launch.request import ClassNotReady, LaunchRequest, LaunchRequests, Round
from services.launcher.launch.results import CLASS_NOT_READY, NO_CAPACITY, STALE_EPOCH, attempt_of
from services.launcher.launch.saga import RETRY_SECONDS, Answers, LaunchSaga, is_waiting
from shared.bus import RetryLater
from shared.clock import Clock
from shared.cloud.batching import Batcher
from shared.domain.instance_types import Catalogue
from shared.domain.machines import Machine
from shared.domain.pool_usage import Counting
from shared.errors import (
    DovetailError,
    InsufficientCapacity,
    InvalidObject,
    NotFound,
    TransientError,
    Unauthorized,
)
from shared.kube.machines import Machines, split_key
from shared.log import get_logger
from shared.settings import LauncherSettings

log = get_logger(__name__)

IDLE_SECONDS = 0.035
LONGEST_SECONDS = 1.0
MOST_MACHINES = 1000
"""LCH-54; a LaunchRecord takes no more."""
WAIT_SECONDS = 5.0
"""How soon a Machine that may not be launched now asks again."""
LONGEST_WAIT_SECONDS = 60.0
Job = Callable[[], Awaitable[Answers]]


@dataclass
class LaunchController:
    """Brings Machines to instances."""

    machines: Machines
    asking: LaunchRequests
    calling: LaunchSaga
    clock: Clock
    settings: LauncherSettings
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    _carried: dict[str, asyncio.Future[Answers]] = field(default_factory=dict)
    _reserved: dict[str, Reservation] = field(default_factory=dict)
    _rest_until: float = float("-inf")
    """By the loop's time, as the batches': after a round machines are collected for as long as it took."""

    def __post_init__(self) -> None:
        self._batches: Batcher[str, None] = Batcher(
            self._round,
            idle=IDLE_SECONDS,
            longest=LONGEST_SECONDS,
            most=MOST_MACHINES,
            busy=self._is_busy,
        )

    async def launch(self, key: str) -> None:
        """Do what is left to do for this machine. Raises RetryLater while it has no instance."""
        try:
            begun = self.begin(key)
        except NotFound:
            return
        await asyncio.shield(begun)

    def begin(self, key: str) -> asyncio.Future[None]:
        """The same, for who does not want to wait. Raises NotFound for a key that names no machine.

        Who asks while the machine is being launched gets the same end. Who stops waiting stops nothing.
        """
        kind, name = split_key(key)
        key = f"{kind}/{name}"
        if key not in self._running:
            self._running[key] = self._batches.put(key)
            self._running[key].add_done_callback(lambda ended: self._ended(key, ended))
        return self._running[key]

    def _ended(self, key: str, answer: asyncio.Future[None]) -> None:
        self._running.pop(key, None)
        if not answer.cancelled():
            answer.exception()  # it is the callers' to handle, and there may be none left

    def _is_busy(self) -> bool:
        """Each round looks at all machines there are: a thousand that come one by one must not be a thousand rounds."""
        return self._deciding.locked() or asyncio.get_running_loop().time() < self._rest_until

    async def _round(self, keys: list[str]) -> Sequence[BaseException | None]:
        """One round for these machines; an answer for each."""
        try:
            async with self._deciding:
                loop = asyncio.get_running_loop()
                began = loop.time()
                uids, answers, jobs = await self._decide(keys)
                self._rest_until = loop.time() + min(loop.time() - began, LONGEST_SECONDS)
        except DovetailError as error:
            log.warning("cannot look what to launch", machines=len(keys), error=error.message)
            return [RetryLater(RETRY_SECONDS)] * len(keys)
        done = await asyncio.gather(*(job() for job in jobs), return_exceptions=True)
        for found in done:
            if isinstance(found, BaseException):
                raise found
            answers |= found
        return [answers.get(uids[key]) if key in uids else None for key in keys]

    async def _decide(self, keys: list[str]) -> tuple[dict[str, str], Answers, list[Job]]:
        """(uid by key, answers that are known at once, calls to make)."""
        before = dict(self._reserved)
        records, unreadable = await self.calling.records.look()
        listed = await self.machines.list()
        machines = {machine.uid: machine for machine in listed}
        by_key = {machine.key: machine for machine in listed}
        waiting = [by_key[key] for key in keys if key in by_key and is_waiting(by_key[key])]
        record_of = {uid: record for record in records for uid in record.uids}
        again = {record_of[m.uid].token: record_of[m.uid] for m in waiting if m.uid in record_of}
        jobs: list[Job] = [self._again(record) for record in again.values()]
        fresh = [m for m in waiting if m.uid not in record_of and m.uid not in unreadable]
        answers: Answers = {m.uid: RetryLater(WAIT_SECONDS) for m in waiting if m.uid in unreadable}
        if fresh:
            catalogue = await self.asking.catalogues.get()
            reserved = {**recorded(records, machines, catalogue), **before, **self._reserved}
            counting = Counting(self.settings.limits_count_terminating)
            ledger = PoolLimits(listed, reserved, now=self.clock.now(), counting=counting)
            more, asked = await self._ask(fresh, ledger, machines)
            answers |= more
            jobs += asked
        return {machine.key: machine.uid for machine in waiting}, answers, jobs

    async def _ask(
        self, fresh: list[Machine], ledger: PoolLimits, machines: dict[str, Machine]
    ) -> tuple[Answers, list[Job]]:
        answers: Answers = {}
        groups: dict[str, list[LaunchRequest]] = {}
        try:
            now = await self.asking.round(ledger, machines.values())
        except (NotNow, TransientError) as error:
            log.info("nothing can be launched now", reason=error.message)
            return {machine.uid: RetryLater(RETRY_SECONDS) for machine in fresh}, []
        for machine in fresh:
            try:
                asked = await self.asking.ask(machine, now)
            except DovetailError as error:
                answers[machine.uid] = await self._refuse(machine, error)
            except Exception:  # one machine that we cannot work out must not stop the others
                log.exception("cannot work out what to ask for", machine=machine.name)
                answers[machine.uid] = RetryLater(self.settings.resync_seconds)
            else:
                groups.setdefault(asked.wanted.digest, []).append(asked)
        for group in groups.values():
            self._reserved |= {asked.machine.uid: asked.kept for asked in group}
        return answers, [self._begin(group, now) for group in groups.values()]

    async def _refuse(self, machine: Machine, error: DovetailError) -> RetryLater | None:
        """The machine may not ask: it goes, or waits and says why, if the API server takes it."""
        try:
            return await self._say_no(machine, error)
        except DovetailError as failed:
            log.warning("cannot write to machine", machine=machine.name, error=failed.message)
            return RetryLater(RETRY_SECONDS)

    async def _say_no(self, machine: Machine, error: DovetailError) -> RetryLater | None:
        outcomes = self.calling.outcomes
        ends = {
            StaleEpoch: STALE_EPOCH,
            ClassNotReady: CLASS_NOT_READY,
            InsufficientCapacity: NO_CAPACITY,
        }
        if type(error) in ends:
            await outcomes.give_up(machine, ends[type(error)], error.message)
            return None
        if isinstance(error, NotNow):
            await outcomes.wait(machine, error.reason, error.message)
            return RetryLater(min(error.seconds or WAIT_SECONDS, LONGEST_WAIT_SECONDS))
        lasting = isinstance(error, InvalidObject | Unauthorized)
        await outcomes.report(
            machine, type(error).__name__ if lasting else "LaunchFailed", error.message
        )
        return RetryLater(self.settings.resync_seconds if lasting else RETRY_SECONDS)

    def _again(self, record: LaunchRecord) -> Job:
        """Go on with a record; whoever comes to it meanwhile waits for the same end."""

        async def job() -> Answers:
            running = self._carried.get(record.token)
            if running is not None:
                return await asyncio.shield(running)
            self._carried[record.token] = end = asyncio.get_running_loop().create_future()
            answers: Answers = {uid: RetryLater(RETRY_SECONDS) for uid in record.uids}
            try:
                answers = await self._settled(record.uids, self.calling.again(record))
            finally:
                del self._carried[record.token]
                end.set_result(answers)
            return answers

        return job

    def _begin(self, group: Sequence[LaunchRequest], now: Round) -> Job:
        async def job() -> Answers:
            uids = [asked.machine.uid for asked in group]
            return await self._settled(uids, self._call(group, now))

        return job

    async def _call(self, group: Sequence[LaunchRequest], now: Round) -> Answers:
        """Record, then call: in this order, and right after the last look at the epoch (F14)."""
        answers: Answers = {}
        for asked in group:
            wait = self.calling.budget.wait([asked.machine.uid])
            if wait:
                answers[asked.machine.uid] = RetryLater(wait)
        ready = [asked for asked in group if asked.machine.uid not in answers]
        if not ready:
            return answers
        sent = await self.calling.turns.next()
        if sent is None or await self.asking.admission.epoch() != now.epoch:
            wait = QUEUE_FULL_SECONDS if sent is None else RETRY_SECONDS
            return answers | {asked.machine.uid: RetryLater(wait) for asked in ready}
        record, fresh = await self.calling.records.write(self._record(ready, now.epoch))
        return answers | await self.calling.send(record, sent, fresh=fresh)

    def _record(self, group: Sequence[LaunchRequest], epoch: int) -> LaunchRecord:
        machines = [asked.machine for asked in group]
        wanted = group[0].wanted
        token = launch_token((machine.uid, attempt_of(machine)) for machine in machines)
        return LaunchRecord(
            token=token,
            subjects=subjects_of(machines),
            request=addressed(wanted.request, machines, token),
            created_at=self.clock.now(),
            images=wanted.images,
            reservations=wanted.reservations,
            attempt=max(map(attempt_of, machines)),
            epoch=epoch,
        )

    async def _settled(self, uids: Iterable[str], work: Awaitable[Answers]) -> Answers:
        """What the work says; later for all when it failed in the middle, for its record tells where."""
        listed = list(uids)
        try:
            return await work
        except DovetailError as error:
            log.warning("launch stopped in the middle", machines=listed[:5], error=error.message)
            return {uid: RetryLater(RETRY_SECONDS) for uid in listed}
        except Exception:  # nor one call of which we cannot read the answer
            log.exception("launch stopped in the middle", machines=listed[:5])
            return {uid: RetryLater(WAIT_SECONDS) for uid in listed}
        finally:
            for uid in listed:
                self._reserved.pop(uid, None)


def recorded(
    records: Iterable[LaunchRecord], machines: Mapping[str, Machine], catalogue: Catalogue | None
) -> dict[str, Reservation]:
    """Room for the machines of open records, by uid: the most that each may become."""
    capacities = {kind.name: kind.capacity for kind in (catalogue.types if catalogue else ())}
    kept: dict[str, Reservation] = {}
    for record in records:
        names = {override["InstanceType"] for override in overrides_of(record.request)}
        most = largest(capacities[name] for name in names if name in capacities)
        for uid in record.uids:
            if uid in machines:
                kept[uid] = Reservation(machines[uid].pool_key, most)
    return kept
