"""The SQS queue as a source of notices (INT-01..04).

One long poll at a time while it is quiet; after a poll that comes back half full, several pollers read a storm at once.
What is held is hidden from other readers (``deliveries``). A message is deleted, in batches, when it was handled, or
when it cannot be read: then its first 4 KiB stay among the dead letters of the stream ``interruptions``, each once.

What may go wrong: the queue is missing or forbidden: ``problem`` says so on /readyz, and it is looked for again, with
growing pauses. A deletion fails: the message comes again and is found to be handled; ``undeleted`` says why. The
service is killed between keeping a dead letter and deleting its message: it is recognised by its id and body.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from random import Random

from services.interruption.directory import Directory
from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.eventbridge import parse
from services.interruption.notices.notice import rank
from services.interruption.sources.deliveries import (
    RENEWAL_PERIOD_SECONDS,
    Deliveries,
    Delivery,
)
from shared.cloud.sqs import BATCH, QueueMessage, Sqs
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause, run_until
from shared.errors import DovetailError, NotFound
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.bus import BadMessage
from shared.redis.bus.dead_letters import DeadLetters
from shared.settings import InterruptionSettings

log = get_logger(__name__)

POLLERS = 8
STORM_MESSAGES = BATCH // 2
"""SQS may return fewer messages than it has; this many at once are a storm."""
STORM_WAIT_SECONDS = 1
SETTING_SECONDS = 5.0
"""How often an empty INTERRUPTION_QUEUE is read again: it may stand in the ConfigMap (OPS-04)."""
LONGEST_BACKOFF_SECONDS = 30.0
DELETERS = 4
"""Batches that are being deleted at the same time."""
GATHER_SECONDS = 0.2
"""How long a batch of deletions may gather: each call costs as much as handling several messages."""
WAITING_RECEIPTS = 10_000
FLUSH_SECONDS = 3.0
DEAD_LETTER_BYTES = 4096
UNDELETED_SECONDS = 60.0
DEAD_LETTER_PAUSE_SECONDS = 5.0
"""After a dead letter that could not be kept, none is tried for this long: notices must not wait for Redis."""
UNREADABLE = "unreadable"

Bury = Callable[[str, bytes, Exception], Awaitable[None]]
"""(message id, body, what is wrong with it) -> kept for people. Raises TransientError."""
GROUP = "interruption"


@dataclass
class SqsSource:
    """Reads one queue into the backlog."""

    settings: InterruptionSettings
    sqs: Sqs
    backlog: Backlog
    directory: Directory
    bury: Bury
    clock: Clock
    random: Random
    metrics: Metrics
    url: str = ""
    problem: str = ""
    last_progress: float = 0.0
    """Monotonic time of the last poll that SQS answered, or of the last reading of an empty setting."""
    last_renewal: float = 0.0
    """Monotonic time of the last look at what is to be renewed."""
    deliveries: Deliveries = field(init=False)
    _done: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(WAITING_RECEIPTS))
    _idle: bool = False
    _dead_letters_from: float = 0.0
    """Monotonic time before which no dead letter is kept."""
    _moved: float = 0.0
    """Monotonic time when a message was taken to be deleted, or began to wait for that while no other one did."""
    _undeleted: str = ""
    _undeleted_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.deliveries = Deliveries(self.sqs, self.clock)

    @property
    def undeleted(self) -> str:
        """Why handled messages cannot be deleted; empty: they can. Such messages come again, and renew this."""
        fresh = self.clock.monotonic() - self._undeleted_at < UNDELETED_SECONDS
        return self._undeleted if fresh else ""

    async def run(self, stop: asyncio.Event) -> None:
        """Read until ``stop``. Messages that were received and not handled by then come again."""
        backoff = Backoff(self.random, first=1.0, cap=LONGEST_BACKOFF_SECONDS)
        while not stop.is_set():
            name = self.settings.interruption_queue
            if not name:
                self._report_idle()
                await pause(stop, SETTING_SECONDS)
                continue
            try:
                await run_until(stop, self._read(name, backoff))
            except DovetailError as error:
                self._report_problem(name, error)
                await pause(stop, backoff.next())

    def _report_idle(self) -> None:
        """Log the empty setting once, not at each reading (INT-01)."""
        if not self._idle:
            log.warning("INTERRUPTION_QUEUE is empty: spot interruptions are not handled")
        self._idle, self.url, self.problem, self._undeleted = True, "", "", ""
        self.last_progress = self.clock.monotonic()

    def _report_problem(self, name: str, error: DovetailError) -> None:
        problem = error.message
        if isinstance(error, NotFound):
            problem = f"queue {name} does not exist; create it or mend INTERRUPTION_QUEUE"
        if problem != self.problem:
            log.error("cannot read the interruption queue", problem=problem)
        self.problem = problem  # the URL stays: handled messages are still to be deleted
        self.last_progress = self.clock.monotonic()

    async def _read(self, name: str, backoff: Backoff) -> None:
        """Read this queue until the setting names another one."""
        self.url = await self.sqs.queue_url(name)
        log.info("reading interruption queue", url=self.url)
        self._idle = False
        await self.directory.loaded()
        while self.settings.interruption_queue == name:
            received = await self._receive(self.settings.receive_wait_seconds)
            self.problem = ""
            backoff.reset()
            if received >= STORM_MESSAGES:
                await self._drain()

    async def _drain(self) -> None:
        """Run several pollers until each finds nothing more. Raises the first failure of one of them."""

        async def drain() -> None:
            while await self._receive(STORM_WAIT_SECONDS):
                pass

        ends = await asyncio.gather(*(drain() for _ in range(POLLERS)), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end

    async def _receive(self, wait_seconds: int) -> int:
        """The number of messages that came; each of them is in the backlog, or is to be deleted."""
        visibility = self.deliveries.visibility_seconds
        messages = await self.sqs.receive(
            self.url, wait_seconds=wait_seconds, visibility_seconds=visibility
        )
        self.last_progress = self.clock.monotonic()
        # All before the first waits for room in the backlog: the others are renewed meanwhile.
        held = [(one, self.deliveries.add(one.receipt, visibility)) for one in messages]
        for message, delivery in held:
            await self._accept(message, delivery)
        return len(messages)

    async def _accept(self, message: QueueMessage, delivery: Delivery) -> None:
        try:
            notice = parse(message.body, received_at=self.clock.now())
        except BadMessage as error:
            await self._keep(message, error.message)
            return
        except Exception as error:  # a defect of this code must not stop the queue at each delivery
            log.exception("cannot parse an interruption message", id=message.id)
            await self._keep(message, repr(error))
            return
        self.metrics.interruptions_received.labels(notice.kind).inc()
        entry = Entry(
            notice,
            done=partial(self._delete, message.receipt),
            until=lambda: delivery.until,
            again=partial(self.deliveries.end, message.receipt),
        )
        await self.backlog.put(entry, rank(notice, self.directory.count(notice.instances)))

    async def _keep(self, message: QueueMessage, fault: str) -> None:
        """Keep a message that no repeat makes readable (INT-04); it is deleted once it is kept."""
        log.error("unreadable interruption message", id=message.id, error=fault)
        self.metrics.interruptions_received.labels(UNREADABLE).inc()
        if self.clock.monotonic() < self._dead_letters_from:
            self.deliveries.end(message.receipt)
            return
        try:
            body = message.body.encode("utf-8", "replace")[:DEAD_LETTER_BYTES]
            # Kept before it is deleted: a kill in between keeps it once, because it is known by id and body.
            await self.bury(message.id, body, BadMessage(fault))
        except DovetailError as failure:
            self._dead_letters_from = self.clock.monotonic() + DEAD_LETTER_PAUSE_SECONDS
            log.warning("cannot keep the message, it comes again", error=failure.message)
            self.deliveries.end(message.receipt)
            return
        self._delete(message.receipt)

    def _delete(self, receipt: str) -> None:
        """Have the message deleted soon; with too many waiting it is forgotten, and comes again."""
        try:
            self._moved = self.deleting()
            self._done.put_nowait(receipt)
        except asyncio.QueueFull:
            log.warning("too many messages wait to be deleted, one comes again")
            self.deliveries.end(receipt)

    async def run_renewals(self, stop: asyncio.Event) -> None:
        """Keep what is held hidden until ``stop``. What is held then comes again."""
        while await pause(stop, RENEWAL_PERIOD_SECONDS):
            if self.url:
                await self.deliveries.renew(self.url)
            self.last_renewal = self.clock.monotonic()

    def deleting(self) -> float:
        """Monotonic time since when a message waits to be deleted that none was taken after; now when none waits."""
        return self.clock.monotonic() if self._done.empty() else self._moved

    async def run_deletions(self, stop: asyncio.Event) -> None:
        """Delete handled messages until ``stop``, then what is left, for at most three seconds."""
        await run_until(stop, self._delete_for_ever())
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                while not self._done.empty():
                    waiting = min(BATCH, self._done.qsize())
                    await self._delete_batch([self._done.get_nowait() for _ in range(waiting)])
        except TimeoutError:
            log.warning("messages were not deleted, they come again", count=self._done.qsize())

    async def _delete_for_ever(self) -> None:
        """Gather one batch at a time, so that batches are full; send several, so that a slow one holds up none."""
        gate = asyncio.Semaphore(DELETERS)
        unfinished: list[list[str]] = []

        def ended(batch: list[str], task: asyncio.Task[None]) -> None:
            gate.release()
            if not task.cancelled():
                unfinished.remove(batch)

        try:
            async with TaskGroup() as group:
                while True:
                    await gate.acquire()
                    batch: list[str] = []
                    unfinished.append(batch)
                    await self._gather(batch)
                    deleting = group.create_task(self._delete_batch(batch))
                    deleting.add_done_callback(partial(ended, batch))
        finally:
            # A cancelled batch may have been deleted or not. The flush deletes it again, which is harmless.
            for receipt in (receipt for batch in unfinished for receipt in batch):
                self._delete(receipt)

    async def _gather(self, batch: list[str]) -> None:
        """Fill ``batch``, or take what comes within ``GATHER_SECONDS`` of the first."""
        batch.append(await self._done.get())
        self._moved = self.clock.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                while len(batch) < BATCH:
                    batch.append(await self._done.get())

    async def _delete_batch(self, receipts: list[str]) -> None:
        try:
            await self._try_to_delete(receipts)
        finally:
            for receipt in receipts:
                self.deliveries.end(receipt)

    async def _try_to_delete(self, receipts: list[str]) -> None:
        if not self.url:
            return  # the setting names no queue any more
        try:
            failed = await self.sqs.delete(self.url, receipts)
        except DovetailError as error:
            if error.message != self.undeleted:
                log.warning("messages were not deleted, they come again", error=error.message)
            self._undeleted, self._undeleted_at = error.message, self.clock.monotonic()
            return
        self._undeleted = ""
        self.metrics.interruptions_deleted.inc(len(receipts) - len(failed))


def keeping(dead_letters: DeadLetters) -> Bury:
    """A function that keeps one message among ``dead_letters``."""

    async def bury(message: str, body: bytes, error: Exception) -> None:
        await dead_letters.add(
            source=f"sqs/{message}",
            group=GROUP,
            fields={b"body": body},
            deliveries=1,
            error=error,
            once=f"{message}/{sha256(body).hexdigest()}",
        )

    return bury
