"""The consumer loop of one group on one stream (F4 to F11).

    own pending entries first
    -> loop: every 5 s take over idle entries -> read as many new ones as slots are free
    -> per-key lock -> handler with a time limit -> batched XACK

Delivery is at least once. Three loops run beside the reading loop: one acknowledges, one moves due retries, one does
the periodic work (heartbeat, renewing the idle time of held entries, trimming). No failure of Redis ends a loop:
back-off 0.1-5 s, one log line per change of state. When Redis was emptied, the group is created again at 0 (F9); the
watcher publishes the lost messages again when it writes the mirror anew, and the periodic resync of each service finds
the rest. After ``stop`` the consumer reads no more, held entries get 20 s, and the rest is handed over so that other
consumers can claim it at once (F29). A cancelled ``run`` hands over as well (F7).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause, run_until
from shared.errors import ConfigurationError, DovetailError
from shared.log import get_logger
from shared.redis.bus.attempt import AttemptLimits, Attempts
from shared.redis.bus.connection import (
    BLOCK_MILLISECONDS,
    REDIS_FAILURES,
    GroupMissing,
    reconnect_pauses,
)
from shared.redis.bus.delay import DelaySet
from shared.redis.bus.group import ConsumerGroup, Delivery
from shared.redis.bus.reaper import Reaper
from shared.redis.bus.slots import Slots

log = get_logger(__name__)

READ_BATCH = 64
LEAVE_SECONDS = 4.0
"""Time for the last acknowledgements and the hand-over. F29 allows 25 s for everything."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Times and limits of a consumer. Only tests need values other than the defaults.

    ``min_idle_seconds``: other consumers take an entry over after this time without a heartbeat. ``move_seconds``: a
    retry that a dead consumer put aside is late by at most this time.
    """

    limit: int = 32
    attempts: AttemptLimits = field(default_factory=AttemptLimits)
    block_milliseconds: int = BLOCK_MILLISECONDS
    min_idle_seconds: float = 60.0
    reap_seconds: float = 5.0
    heartbeat_seconds: float = 10.0
    move_seconds: float = 10.0
    trim_seconds: float = 30.0
    finish_seconds: float = 20.0

    @classmethod
    def idle_for(cls, seconds: float) -> ConsumerSettings:
        """Entries of a consumer without a heartbeat are taken over after ``seconds``; heartbeats come every 5 s where
        that is short. Raises ConfigurationError below 10 s."""
        return cls(min_idle_seconds=seconds, heartbeat_seconds=min(10.0, max(5.0, seconds / 2)))

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ConfigurationError(f"consumer limit is {self.limit}, it must be at least 1")
        if 2 * self.heartbeat_seconds > self.min_idle_seconds:
            raise ConfigurationError(
                f"consumer heartbeat_seconds {self.heartbeat_seconds} must be at most half of "
                f"min_idle_seconds {self.min_idle_seconds}, or other consumers claim the entries of live ones"
            )


@dataclass(slots=True)
class _PeriodicTask:
    """An action that is due every ``period`` seconds."""

    name: str
    period: float
    action: Callable[[], Awaitable[object]]
    due: float


@dataclass(eq=False)
class Consumer:
    """Made by ``Bus.consumer``. ``run`` may be called once."""

    group: ConsumerGroup
    attempts: Attempts
    settings: ConsumerSettings
    clock: Clock
    random: random.Random
    delays: DelaySet
    trim: Callable[[], Awaitable[int]]
    close: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self._slots = Slots(self.settings.limit)
        self._reaper = Reaper(self.group, self.clock, self.settings.min_idle_seconds)
        self._handling: set[asyncio.Task[None]] = set()
        self._log = log.bind(group=self.group.group, consumer=self.group.name)
        self._recovered = False
        self._group_seen = False
        self._heartbeat_works = True
        self._beats = 0
        self._next_reap = 0.0
        self.connected = False
        self.last_progress = self.clock.monotonic()
        """Monotonic time of the last pass of the reading loop without a Redis failure."""

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until ``stop`` is set; then finish or hand over the held entries, and return."""
        try:
            async with TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._acknowledge_forever()),
                    tasks.create_task(self._run_periodic_tasks()),
                    tasks.create_task(self._move_due_forever()),
                ]
                # A read that is cut off loses nothing: what it was given is handed over with what is held.
                await run_until(stop, self._read(tasks))
                await self._finish()
                for task in background:
                    task.cancel()
        finally:
            await self._leave()

    async def _read(self, tasks: TaskGroup) -> None:
        backoff = reconnect_pauses(self.random)
        while True:
            try:
                await self._read_once(tasks)
            except GroupMissing:
                self._recovered = False
            except REDIS_FAILURES as error:
                self._note_disconnected(error)
                await asyncio.sleep(backoff.next())
            else:
                self._note_connected()
                backoff.reset()

    async def _read_once(self, tasks: TaskGroup) -> None:
        if not self._recovered:
            await self._recover(tasks)
        if self.clock.monotonic() >= self._next_reap:
            await self._reap(tasks)
        free = min(self._slots.free, READ_BATCH)
        if free == 0:
            await self._slots.wait_for_free(self.settings.block_milliseconds / 1000)
            return
        # A read whose reply is lost may have assigned entries to us: after any failure, read our pending list first.
        self._recovered = False
        deliveries = await self.group.read_new(free, self.settings.block_milliseconds)
        self._recovered = True
        self._begin(deliveries, tasks)

    async def _recover(self, tasks: TaskGroup) -> None:
        """Create the group if needed, then take the entries that are pending for us and not held."""
        created = await self.group.create()
        if created and self._group_seen:
            self._log.warning("consumer group was gone and is created again")
        self._group_seen = True
        await self._take(await self.group.pending_of(self.group.name), tasks)
        self._recovered = True

    async def _reap(self, tasks: TaskGroup) -> None:
        ids = await self._reaper.find(self._slots.free, trust_heartbeats=self._heartbeat_works)
        await self._take(ids, tasks)
        self._next_reap = self.clock.monotonic() + self.settings.reap_seconds

    async def _take(self, ids: list[str], tasks: TaskGroup) -> None:
        not_held = [entry_id for entry_id in ids if entry_id not in self._slots]
        # Entries that do not fit now stay pending for us; the reaper finds them when they are idle.
        deliveries = await self.group.take(not_held[: self._slots.free])
        self._begin(deliveries, tasks)

    def _begin(self, deliveries: list[Delivery], tasks: TaskGroup) -> None:
        for delivery in deliveries:
            self._slots.hold(delivery.entry_id)
            task = tasks.create_task(self._attempt(delivery))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _attempt(self, delivery: Delivery) -> None:
        settled = False
        try:
            settled = await self.attempts.run(delivery)
        finally:
            if settled:
                self._slots.settle(delivery.entry_id)
            else:
                self._slots.release(delivery.entry_id)

    async def _acknowledge_forever(self) -> None:
        backoff = reconnect_pauses(self.random)
        while True:
            ids = await self._slots.next_settled()
            try:
                await self._acknowledge(ids)
            except (*REDIS_FAILURES, GroupMissing):
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    async def _acknowledge(self, ids: list[str]) -> None:
        await self.group.acknowledge(ids)
        self._slots.acknowledged(ids)

    async def _move_due_forever(self) -> None:
        backoff = reconnect_pauses(self.random)
        while True:
            self.delays.added.clear()
            try:
                seconds = min(self.settings.move_seconds, await self.delays.move_due())
            except (*REDIS_FAILURES, GroupMissing) as error:
                self._log.debug("due retries are not moved", error=str(error))
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()
                await pause(self.delays.added, seconds)

    async def _run_periodic_tasks(self) -> None:
        periodic = self._periodic_tasks()
        while True:
            for task in periodic:
                if self.clock.monotonic() >= task.due:
                    await self._run_task(task)
            delay = min(task.due for task in periodic) - self.clock.monotonic()
            await asyncio.sleep(max(0.0, delay))

    def _periodic_tasks(self) -> list[_PeriodicTask]:
        now, settings = self.clock.monotonic(), self.settings
        # The first trim is at a random moment, so that consumers started together do not all trim at once.
        first_trim = now + settings.trim_seconds * self.random.random()
        return [
            _PeriodicTask("heartbeat", settings.heartbeat_seconds, self._beat, now),
            _PeriodicTask("renew", settings.heartbeat_seconds, self._renew, now),
            _PeriodicTask("trim", settings.trim_seconds, self.trim, first_trim),
        ]

    async def _run_task(self, task: _PeriodicTask) -> None:
        try:
            await task.action()
        except (*REDIS_FAILURES, GroupMissing) as error:
            self._log.debug("periodic task failed", task=task.name, error=str(error))
        task.due = self.clock.monotonic() + task.period

    async def _beat(self) -> None:
        self._heartbeat_works = False
        self._beats += 1
        await self.group.beat(self._beats, 3 * self.settings.min_idle_seconds)
        self._heartbeat_works = True

    async def _renew(self) -> None:
        await self.group.claim_now(self._slots.held())

    async def _finish(self) -> None:
        """Wait at most ``finish_seconds`` for running handlers; cancel those that still run."""
        if self._handling:
            _, unfinished = await asyncio.wait(self._handling, timeout=self.settings.finish_seconds)
            for task in unfinished:
                task.cancel()

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                # Acknowledge first: a settled entry that is handed over would be handled twice.
                await self._acknowledge(self._slots.settled())
                left = await self.group.hand_over()
            self._log.info("consumer stopped", handed_over=left)
        except (*REDIS_FAILURES, GroupMissing, TimeoutError) as error:
            self._log.warning("consumer stopped without hand-over", error=str(error))
        finally:
            await self.close()

    def _note_disconnected(self, error: DovetailError) -> None:
        if self.connected or not self._group_seen:
            self._log.warning("Redis is unreachable, retrying", error=error.message)
        self.connected = False

    def _note_connected(self) -> None:
        self.last_progress = self.clock.monotonic()
        if not self.connected:
            self._log.info("Redis is connected")
        self.connected = True
