"""One attempt at one message: decode it, call the handler, decide what happens to the entry.

    handled, or meant for another group     settle (acknowledge)
    RetryLater, or from a newer version     delay, then settle
    BadMessage, unreadable, over the limit  dead letter, then settle
    any other error, time limit             stays pending; delivered again after the idle time

The delayed retry or the dead letter is written before the acknowledgement, so a crash between the two duplicates a
message and never loses one (F4). When Redis refuses the write (full or unreachable) the entry stays pending.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from shared.errors import DovetailError
from shared.log import get_logger, log_context
from shared.redis.bus.connection import REDIS_FAILURES
from shared.redis.bus.dead_letters import DeadLetters
from shared.redis.bus.delay import DelaySet, delay_seconds
from shared.redis.bus.envelope import SUPPORTED_VERSION, BadMessage, Envelope, Handler, RetryLater
from shared.redis.bus.group import Delivery
from shared.redis.bus.trace_context import trace_id


def _logged(envelope: Envelope) -> dict[str, str]:
    """What every log line of its handling carries."""
    trace = {"trace_id": trace_id(envelope.trace)} if envelope.trace else {}
    return {"message_id": envelope.id, **trace}


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class KeyedLocks:
    """Serialises work per key inside one process, first come first served."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Wait for the key, and hold it during the block."""
        entry = self._entries.setdefault(key, _Entry())
        entry.users += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if entry.users == 0:
                del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)


log = get_logger(__name__)

NEWER_VERSION_DELAY_SECONDS = 30.0
"""A message of a newer version waits for a consumer that runs the newer build (a rolling upgrade)."""


class TooManyDeliveries(DovetailError):
    """The entry was delivered more often than ``AttemptLimits.deliveries``; it may crash its consumer."""


class TooManyRetries(DovetailError):
    """The handler raised ``RetryLater`` more often than ``AttemptLimits.retries``."""


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """``retries`` bounds delayed retries: the default gives up after 50 minutes or more (F30, ``delay_seconds``)."""

    handler_timeout_seconds: float = 60.0
    deliveries: int = 5
    retries: int = 120


@dataclass(eq=False)
class Attempts:
    """Runs attempts for one stream and group."""

    group: str
    handler: Handler
    limits: AttemptLimits
    delay: DelaySet
    dead_letters: DeadLetters
    random: random.Random
    _locks: KeyedLocks = field(default_factory=KeyedLocks, init=False)

    async def run(self, delivery: Delivery) -> bool:
        """True when the entry may be acknowledged, False when it has to stay pending."""
        # The limit is checked before decoding: an entry whose handling crashes the process is counted by Redis only.
        try:
            if delivery.deliveries > self.limits.deliveries:
                raise TooManyDeliveries(f"delivered {delivery.deliveries} times")
            envelope = Envelope.decode(delivery.fields)
        except (TooManyDeliveries, BadMessage) as error:
            return await self._store_dead_letter(delivery, error)
        if envelope.only_group not in ("", self.group):
            return True
        if envelope.version > SUPPORTED_VERSION:
            later = RetryLater(NEWER_VERSION_DELAY_SECONDS, f"version {envelope.version}")
            return await self._postpone(delivery, envelope, later)
        async with self._locks.hold(envelope.key):
            return await self._handle(delivery, envelope)

    async def _handle(self, delivery: Delivery, envelope: Envelope) -> bool:
        try:
            with log_context(**_logged(envelope)):
                async with asyncio.timeout(self.limits.handler_timeout_seconds):
                    await self.handler(envelope)
        except RetryLater as later:
            return await self._postpone(delivery, envelope, later)
        except BadMessage as error:
            return await self._store_dead_letter(delivery, error)
        except Exception as error:  # noqa: BLE001  supervised: a handler's error never ends the loop
            return await self._fail(delivery, envelope, error)
        return True

    async def _fail(self, delivery: Delivery, envelope: Envelope, error: Exception) -> bool:
        log.warning(
            "message handler failed",
            group=self.group,
            entry=delivery.entry_id,
            type=envelope.type,
            key=envelope.key,
            deliveries=delivery.deliveries,
            error=f"{type(error).__name__}: {error}",
        )
        if delivery.deliveries < self.limits.deliveries:
            return False
        return await self._store_dead_letter(delivery, error)

    async def _postpone(self, delivery: Delivery, envelope: Envelope, later: RetryLater) -> bool:
        if envelope.attempt >= self.limits.retries:
            error = TooManyRetries(f"{envelope.attempt} delayed retries, last: {later.message}")
            return await self._store_dead_letter(delivery, error)
        seconds = delay_seconds(later.seconds, envelope.attempt, self.random)
        again = envelope.for_retry(self.group)
        try:
            await self.delay.put(again, seconds)
        except REDIS_FAILURES as error:
            log.warning("retry could not be stored, message stays pending", error=str(error))
            return False
        return True

    async def _store_dead_letter(self, delivery: Delivery, error: Exception) -> bool:
        try:
            await self.dead_letters.add(
                source=delivery.entry_id,
                group=self.group,
                fields=delivery.fields,
                deliveries=delivery.deliveries,
                error=error,
            )
        except REDIS_FAILURES as failure:
            log.warning(
                "dead letter could not be stored, message stays pending", error=str(failure)
            )
            return False
        log.error(
            "message parked as dead letter",
            group=self.group,
            entry=delivery.entry_id,
            error=f"{type(error).__name__}: {error}",
        )
        return True
