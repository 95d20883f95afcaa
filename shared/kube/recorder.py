"""Kubernetes events, as ``kubectl describe`` shows them (EVT-01 to EVT-03).

``publish`` only adds to a bounded queue; ``run`` writes at a limited rate. The same (reason, object, message) is
written once in ``dedupe_seconds``: a bounded cache covers this process, and a shared ``seen`` port (Redis SET NX EX)
all services. A later repetition increments the count of the event that exists already. An event with ``once`` has a
name that follows from its content, so a process that repeats it after a crash finds the existing event.

Faults never reach the caller: a full queue drops the event and counts it, a failed write or a failed
``seen`` is logged and counted.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from shared.concurrency.clock import Clock, rfc3339
from shared.concurrency.expiring import Expiring
from shared.concurrency.waiting import pause, run_until
from shared.errors import AlreadyExists, DovetailError, NotFound, TransientError
from shared.kube.client import Kube
from shared.kube.resources import EVENTS
from shared.kube.transport.pacing import TokenBucket
from shared.log import get_logger

log = get_logger(__name__)

QUEUE_SIZE = 1000
CACHED_EVENTS_LIMIT = 10_000
KEPT_SECONDS = 3600.0
"""How long Kubernetes keeps an event after its last change, by default."""
EVENTS_PER_SECOND, BURST = 10.0, 50
COMPONENT = "dovetail"
IDLE_SECONDS = 10.0
WRITE_TIMEOUT_SECONDS = 5.0
FLUSH_SECONDS = 2.0
MESSAGE_LIMIT = 1024
"""Longest event message that the API server accepts, in characters."""
NAME_LIMIT = 253
INVOLVED_FIELDS = ("apiVersion", "kind", "name", "namespace", "uid")


class SeenEvents(Protocol):
    """Expiring keys of events, possibly shared between processes."""

    async def first(self, key: str, seconds: float) -> bool:
        """Whether ``key`` was not seen in the last ``seconds``; it is now."""
        ...

    async def has(self, key: str) -> bool:
        """Whether ``key`` was seen and has not expired."""
        ...


class LocalSeenEvents:
    """``SeenEvents`` of this process: at most ``size`` keys, the oldest dropped first."""

    def __init__(self, clock: Clock, size: int = CACHED_EVENTS_LIMIT) -> None:
        self._clock = clock
        self._seen = Expiring[bool](size)

    async def first(self, key: str, seconds: float) -> bool:
        """Whether ``key`` was not seen in the last ``seconds``; it is now."""
        return self._seen.begin(key, now=self._clock.monotonic(), seconds=seconds)

    async def has(self, key: str) -> bool:
        """Whether ``key`` was seen and has not expired."""
        return self._seen.get(key, self._clock.monotonic()) is not None

    def forget(self, key: str) -> None:
        """Remove ``key``: its event was not written."""
        self._seen.forget(key)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence to record about an object. ``at`` is wall time in seconds since 1970."""

    involved: dict[str, str]
    type: str
    reason: str
    message: str
    at: float
    dedupe_seconds: float
    once: str = ""
    alike: str = ""

    @property
    def key(self) -> str:
        """Occurrences with the same key are the same event (EVT-01)."""
        object_id = self.involved.get("uid") or "/".join(sorted(self.involved.values()))
        text = "\0".join((self.reason, object_id, self.alike or self.message))
        return _digest(text)

    @property
    def namespace(self) -> str:
        """The namespace of the event object."""
        return self.involved.get("namespace") or "default"

    @property
    def suffix(self) -> str:
        """The name's suffix of an event with ``once``; empty for other events."""
        return _digest(f"{self.key}\0{self.once}")[:16] if self.once else ""


def _assume_unseen(error: DovetailError) -> bool:
    """False when the shared state is unknown: a duplicate event is better than none."""
    log.warning("cannot de-duplicate events between services", error=error.message)
    return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(eq=False)
class Recorder:
    """Writes events; counts ``written``, ``dropped`` (queue full), ``failed``."""

    kube: Kube
    clock: Clock
    random: Random
    seen: SeenEvents | None = None
    """De-duplicates with other processes too (EVT-03)."""
    written: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.last_progress = self.clock.monotonic()
        self._here = LocalSeenEvents(self.clock)
        self._series = Expiring[tuple[str, int]](CACHED_EVENTS_LIMIT)
        """Key of an occurrence -> name and count of its event."""
        self._bucket = TokenBucket(EVENTS_PER_SECOND, BURST, self.clock)
        self._warnings: deque[Occurrence] = deque()
        self._others: deque[Occurrence] = deque()
        self._ready = asyncio.Event()

    async def publish(
        self,
        involved: dict[str, str],
        type: str,
        reason: str,
        message: str,
        *,
        dedupe_seconds: float = 120,
        once: str = "",
        alike: str = "",
    ) -> None:
        """Queue an event about ``involved`` (apiVersion, kind, name, uid, maybe namespace).

        ``type`` is Normal or Warning, ``reason`` one word in CamelCase. ``once`` identifies the occasion: an event with
        the same content and ``once`` is not written again while Kubernetes keeps the first, also not after a restart.
        ``alike``: what the messages of equal events have in common, where names or numbers in them change; empty: the
        whole message.
        Never fails, never waits for the network.
        """
        if self._waiting() >= QUEUE_SIZE:
            self.dropped += 1
            return
        happened = self._occurrence(involved, type, reason, message, dedupe_seconds, once, alike)
        if await self._here.first(happened.key, dedupe_seconds):
            # A burst of Normal events (400 pods Nominated) must not delay the warning why a pod cannot run.
            (self._warnings if type == "Warning" else self._others).append(happened)
            self._ready.set()

    async def write_now(
        self, involved: dict[str, str], type: str, reason: str, message: str, *, once: str
    ) -> None:
        """Write an event before returning, for a caller that deletes its reason right afterwards; else as ``publish``.

        Raises TransientError; any other error is logged and counted.
        """
        try:
            await self._write(self._occurrence(involved, type, reason, message, 0.0, once))
        except TransientError:
            raise
        except DovetailError as error:
            self._count_failure(reason, error)

    def _occurrence(
        self,
        involved: dict[str, str],
        type: str,
        reason: str,
        message: str,
        dedupe_seconds: float,
        once: str,
        alike: str = "",
    ) -> Occurrence:
        return Occurrence(
            {field: involved[field] for field in INVOLVED_FIELDS if involved.get(field)},
            type,
            reason,
            message[:MESSAGE_LIMIT],
            self.clock.now(),
            dedupe_seconds,
            once,
            alike,
        )

    def _waiting(self) -> int:
        return len(self._warnings) + len(self._others)

    async def run(self, stop: asyncio.Event) -> None:
        """Write queued events until ``stop``, then the remaining ones; ends at most 7 s after ``stop``."""
        while not stop.is_set():
            self.last_progress = self.clock.monotonic()
            # A stop interrupts only the wait: a write that has begun is completed.
            await run_until(stop, self._wait_for_work())
            if self._waiting() and not stop.is_set():
                await self._write_next()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._waiting():
                    await self._write_next()
        except TimeoutError:
            self.dropped += self._waiting()

    async def _wait_for_work(self) -> None:
        """Wait until an event may be written, at most 10 s so that ``last_progress`` stays current."""
        if not await pause(self._ready, IDLE_SECONDS):
            await self._bucket.acquire()

    async def _write_next(self) -> None:
        happened = (self._warnings or self._others).popleft()
        if not self._waiting():
            self._ready.clear()
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_SECONDS):
                await self._write(happened)
        except (DovetailError, TimeoutError) as error:
            self._count_failure(happened.reason, error)
            if happened.once:
                self._here.forget(happened.key)  # so that a repetition is written

    def _count_failure(self, reason: str, error: Exception) -> None:
        self.failed += 1
        log.warning("cannot write an event", reason=reason, error=str(error))

    async def _write(self, happened: Occurrence) -> None:
        if await (self._is_written(happened) if happened.once else self._was_seen(happened)):
            return
        if not happened.once and await self._counted(happened):
            return
        body = self._event(happened)
        try:
            await self.kube.create(EVENTS, body, body["metadata"]["namespace"])
        except AlreadyExists:
            if not happened.once:
                raise
        else:
            self.written += 1
            if not happened.once:
                self._remember(happened, body["metadata"]["name"], 1)
        if happened.once:
            # Only after the write: a crash before it must not keep the next process from writing the event.
            await self._was_seen(happened)

    async def _counted(self, happened: Occurrence) -> bool:
        """Increment the count of the equal event that this process wrote before; False when there is none."""
        known = self._series.get(happened.key, self.clock.monotonic())
        if known is None:
            return False
        name, count = known
        body: dict[str, Any] = {"count": count + 1, "lastTimestamp": rfc3339(happened.at)}
        if happened.alike:
            body["message"] = happened.message
        try:
            await self.kube.patch(EVENTS, name, body, happened.namespace)
        except NotFound:  # Kubernetes deletes events after an hour
            return False
        self.written += 1
        self._remember(happened, name, count + 1)
        return True

    def _remember(self, happened: Occurrence, name: str, count: int) -> None:
        now = self.clock.monotonic()
        self._series.put(happened.key, (name, count), now=now, seconds=KEPT_SECONDS)

    async def _was_seen(self, happened: Occurrence) -> bool:
        """Whether any service has seen the event before; records it as seen."""
        try:
            return self.seen is not None and not await self.seen.first(
                happened.key, happened.dedupe_seconds
            )
        except DovetailError as error:
            return _assume_unseen(error)

    async def _is_written(self, happened: Occurrence) -> bool:
        """Whether any service has written the event."""
        try:
            return self.seen is not None and await self.seen.has(happened.key)
        except DovetailError as error:
            return _assume_unseen(error)

    def _event(self, happened: Occurrence) -> dict[str, Any]:
        """The core/v1 Event; events about cluster-scoped objects are in namespace ``default``."""
        suffix = f".{happened.suffix or format(self.random.getrandbits(64), '016x')}"
        name = happened.involved["name"][: NAME_LIMIT - len(suffix)] + suffix
        at = rfc3339(happened.at)
        return {
            "metadata": {
                "name": name,
                "namespace": happened.namespace,
            },
            "involvedObject": happened.involved,
            "type": happened.type,
            "reason": happened.reason,
            "message": happened.message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
