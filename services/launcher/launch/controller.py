"""Brings Machines to instances: collects them, decides together, launches side by side (F1, LCH-54).

Machines without an instance are collected for a moment, then one round is made for all of them:

    1. list the open LaunchRecords, then the Machines
    2. a Machine that an open record names: resume that record
    3. every other Machine: work out its request; Machines with equal requests go into one call
    4. each call and each resumed record is one run of the saga (see ``saga``)

The order in 1 matters: a launch that ends meanwhile deletes its record after it wrote to its Machines, so it shows
either the record or the written Machine, never neither.

Stopped dead anywhere, the next round of any of the Machines (by message or by timed listing) finds the record and
resumes it. Rounds of one process decide one after the other, so that no two spend the same room; the calls run side by
side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.launcher.launch.admission import NotNow, StaleEpoch
from services.launcher.launch.fleet import LaunchRecord, gang_of
from services.launcher.launch.limits import ReservedRoom
from services.launcher.launch.record_store import LaunchRecords
from services.launcher.launch.request import ClassNotReady, LaunchRequest, LaunchRequests
from services.launcher.launch.results import (
    CLASS_NOT_READY,
    NO_CAPACITY,
    STALE_EPOCH,
    GiveUpReason,
    LaunchResults,
)
from services.launcher.launch.saga import Answers, LaunchSaga, is_waiting, retry
from shared.cloud.client.batching import Batcher
from shared.domain.machines.machine import Machine
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
from shared.redis.bus import RetryLater
from shared.settings import LauncherSettings

log = get_logger(__name__)

BATCH_IDLE_SECONDS = 0.035
BATCH_LONGEST_SECONDS = 1.0
MOST_MACHINES = 1000
"""LCH-54: machines are collected until none came for the first of these times, or for the second, or until there are
so many; a LaunchRecord takes no more."""
REFUSED_WAIT_SECONDS = 5.0
"""How soon a Machine asks again after a fault of our own."""
LONGEST_REFUSED_WAIT_SECONDS = 60.0
GIVEN_UP: dict[type[DovetailError], GiveUpReason] = {
    StaleEpoch: STALE_EPOCH,
    ClassNotReady: CLASS_NOT_READY,
    InsufficientCapacity: NO_CAPACITY,
}
"""Errors for which a Machine is deleted -> the reason of its event."""
Run = Callable[[], Awaitable[Answers]]


class Decision(NamedTuple):
    uids: dict[str, str]
    """Key -> uid of the machines that want an instance."""
    answers: Answers
    """Those that are known without a call."""
    runs: list[Run]
    """Calls to make, and records to resume."""


@dataclass
class LaunchController:
    """Collects Machines, and answers for each."""

    machines: Machines
    records: LaunchRecords
    requests: LaunchRequests
    saga: LaunchSaga
    results: LaunchResults
    settings: LauncherSettings
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    """Machine key -> the end of its launch."""
    _resumed: dict[str, asyncio.Future[Answers]] = field(default_factory=dict)
    """Token of a record -> the end of its run."""
    _reserved: dict[str, ReservedRoom] = field(default_factory=dict)
    """Uid -> room, from the decision until the call has ended: between the two no record may show it yet."""
    _rest_until: float = float("-inf")
    """By the loop's time, as the batches': after a round machines are collected for as long as it took."""

    def __post_init__(self) -> None:
        self._batches: Batcher[str, None] = Batcher(
            self._round,
            idle=BATCH_IDLE_SECONDS,
            longest=BATCH_LONGEST_SECONDS,
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
        """Like ``launch``, without waiting. Raises NotFound for a key that names no machine.

        Callers that ask while the machine is being launched share one future. A caller that stops waiting stops
        nothing.
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
            answer.exception()  # marks it as read: the callers handle it, and there may be none left

    def _is_busy(self) -> bool:
        """Each round lists all machines: a thousand that come one by one must not be a thousand rounds."""
        return self._deciding.locked() or asyncio.get_running_loop().time() < self._rest_until

    async def _round(self, keys: list[str]) -> Sequence[BaseException | None]:
        """One round for these machines; an answer for each."""
        try:
            async with self._deciding:
                loop = asyncio.get_running_loop()
                began = loop.time()
                uids, answers, runs = await self._decide(keys)
                self._rest_until = loop.time() + min(loop.time() - began, BATCH_LONGEST_SECONDS)
        except DovetailError as error:
            log.warning("cannot look what to launch", machines=len(keys), error=error.message)
            return [RetryLater()] * len(keys)
        done = await asyncio.gather(*(run() for run in runs), return_exceptions=True)
        for found in done:
            if isinstance(found, BaseException):
                raise found
            answers |= found
        return [answers.get(uids[key]) if key in uids else None for key in keys]

    async def _decide(self, keys: list[str]) -> Decision:
        # Calls that end while we list free their room, but their machines may be missing in our list: count both.
        before = dict(self._reserved)
        records, unreadable = await self.records.list_open()
        listed = await self.machines.list()
        by_key = {machine.key: machine for machine in listed}
        waiting = [by_key[key] for key in keys if key in by_key and is_waiting(by_key[key])]
        record_of = {uid: record for record in records for uid in record.uids}
        open_ones = {
            record_of[m.uid].token: record_of[m.uid] for m in waiting if m.uid in record_of
        }
        runs = [self._resume(record) for record in open_ones.values()]
        # Nobody can say what an unreadable record has started: its machines must not be launched twice.
        answers = retry((m.uid for m in waiting if m.uid in unreadable), REFUSED_WAIT_SECONDS)
        new = [m for m in waiting if m.uid not in record_of and m.uid not in unreadable]
        if new:
            more, begun = await self._request(new, listed, records, before)
            answers |= more
            runs += begun
        return Decision({machine.key: machine.uid for machine in waiting}, answers, runs)

    async def _request(
        self,
        new: list[Machine],
        listed: Sequence[Machine],
        records: Iterable[LaunchRecord],
        before: dict[str, ReservedRoom],
    ) -> tuple[Answers, list[Run]]:
        """Answers for those that may not ask now, and one run for each group with equal requests."""
        try:
            now = await self.requests.begin_round(listed, records, {**before, **self._reserved})
        except (NotNow, TransientError) as error:
            log.info("nothing can be launched now", reason=error.message)
            return retry(machine.uid for machine in new), []
        answers: Answers = {}
        groups: dict[tuple[str, str], list[LaunchRequest]] = {}
        for machine in new:
            try:
                request = await self.requests.request(machine, now)
            except DovetailError as error:
                answers[machine.uid] = await self._refuse(machine, error)
            except Exception:  # one machine that we cannot work out must not stop the others
                log.exception("cannot work out what to ask for", machine=machine.name)
                answers[machine.uid] = RetryLater(self.settings.resync_seconds)
            else:
                # A gang has a call of its own, which may ask for all or none.
                key = (request.content.digest, gang_of(machine))
                groups.setdefault(key, []).append(request)
        for group in groups.values():
            self._reserved |= {one.machine.uid: one.room for one in group}
        return answers, [self._begin(group, now.epoch) for group in groups.values()]

    async def _refuse(self, machine: Machine, error: DovetailError) -> RetryLater | None:
        """The machine may not ask: it is deleted, or waits and says why, if the API server takes it."""
        try:
            return await self._write_refusal(machine, error)
        except DovetailError as failed:
            log.warning("cannot write to machine", machine=machine.name, error=failed.message)
            return RetryLater()

    async def _write_refusal(self, machine: Machine, error: DovetailError) -> RetryLater | None:
        if type(error) in GIVEN_UP:
            await self.results.give_up(machine, GIVEN_UP[type(error)], error.message)
            return None
        if isinstance(error, NotNow):
            await self.results.wait(machine, error.reason, error.message)
            return RetryLater(
                None if error.seconds is None else min(error.seconds, LONGEST_REFUSED_WAIT_SECONDS)
            )
        lasting = isinstance(error, InvalidObject | Unauthorized)
        reason = type(error).__name__ if lasting else "LaunchFailed"
        await self.results.report(machine, reason, error.message)
        return RetryLater(self.settings.resync_seconds if lasting else None)

    def _begin(self, group: Sequence[LaunchRequest], epoch: int) -> Run:
        async def run() -> Answers:
            uids = [request.machine.uid for request in group]
            return await self._settled(uids, self.saga.begin(group, epoch))

        return run

    def _resume(self, record: LaunchRecord) -> Run:
        """Go on with a record; a round that comes to it meanwhile waits for the same end."""

        async def run() -> Answers:
            running = self._resumed.get(record.token)
            if running is not None:
                return await asyncio.shield(running)
            self._resumed[record.token] = end = asyncio.get_running_loop().create_future()
            answers = retry(record.uids)
            try:
                answers = await self._settled(record.uids, self.saga.resume(record))
            finally:
                del self._resumed[record.token]
                end.set_result(answers)
            return answers

        return run

    async def _settled(self, uids: Iterable[str], work: Awaitable[Answers]) -> Answers:
        """The answers of the work; "later" for all when it failed in the middle, since its record tells where."""
        listed = list(uids)
        try:
            return await work
        except DovetailError as error:
            log.warning("launch stopped in the middle", machines=listed[:5], error=error.message)
            return retry(listed)
        except Exception:  # one call whose answer we cannot read must not stop the others
            log.exception("launch stopped in the middle", machines=listed[:5])
            return retry(listed, REFUSED_WAIT_SECONDS)
        finally:
            for uid in listed:
                self._reserved.pop(uid, None)
