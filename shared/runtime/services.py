"""Runs services: one in a process, or all five.

A service is a list of supervised loops, with readiness and status. A loop that raises is logged, counted and restarted
with exponential backoff, without effect on other loops; a loop that fails repeatedly makes the service not ready.
SIGTERM sets the stop event: loops finish their current work, and the process exits within ``STOP_SECONDS`` even if a
loop hangs (F29).
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import orjson

from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup, is_cancelled
from shared.concurrency.waiting import pause
from shared.errors import DovetailError
from shared.log import get_logger
from shared.metrics import Metrics

log = get_logger(__name__)

STOP_SECONDS = 25.0
"""From SIGTERM to the end of the process."""
BACKOFF_SECONDS = (0.5, 30.0)
"""First and longest pause before a failed loop is restarted."""
HEALTHY_SECONDS = 60.0
"""The run time after which a loop counts as healthy: its failures no longer count, and the backoff starts anew."""
MOST_FAILURES = 1
"""Consecutive failures of a ready service; restarts after more failures do not count as progress."""


@dataclass
class Loop:
    """One supervised loop. ``run`` returns only when the event is set."""

    name: str
    run: Callable[[asyncio.Event], Coroutine[None, None, None]]
    late_seconds: float = 120.0
    """Without progress for this long the service is not ready (R8)."""
    progress: Callable[[], float | None] | None = None
    """Monotonic time of the last progress, or None before the first one; None: the loop reports by ``beat``."""
    beat: float = 0.0
    """Monotonic time of the last turn, or of the first start."""
    ended: bool = False
    """Nothing runs the loop any more, whatever it says of its progress."""
    error: str = ""
    started: float = -inf
    """Monotonic time of its last start."""
    failures: int = 0
    """Consecutive failures, without a healthy run between them."""
    count_turn: Callable[[str, float], None] | None = None
    """Called with the loop's name and the seconds of each completed turn, if it has turns."""

    def complaint(self, now: float) -> str:
        """Why the loop is not working; "" when it is."""
        if self.failures > MOST_FAILURES and now - self.started < HEALTHY_SECONDS:
            return f"loop {self.name} failed {self.failures} times in a row: {self.error}"
        if self.ended:
            return f"loop {self.name} has ended {self.error}".rstrip()
        last = self.latest()
        if now - last > self.late_seconds:
            return f"loop {self.name} made no progress for {now - last:.0f} s {self.error}".rstrip()
        return ""

    def latest(self) -> float:
        """Monotonic time of the last progress; of the start before the first one."""
        last = self.progress() if self.progress else None
        return self.beat if last is None else last

    def succeeded(self, now: float) -> None:
        """Record a completed turn."""
        self.beat, self.error, self.failures = now, "", 0

    def failed(self, now: float, error: str) -> None:
        """Record that the loop ended with an error."""
        if now - self.started > HEALTHY_SECONDS:
            self.failures = 0
        self.failures += 1
        self.error = error


@dataclass(frozen=True)
class Answer:
    """An HTTP status and a document, as a rule of JSON."""

    status: int
    body: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(status: int, document: Mapping[str, object]) -> Answer:
    """``document`` as the body."""
    return Answer(status, orjson.dumps(document))


CALLER = "X-Caller"


@dataclass(frozen=True)
class Question:
    """A POST with a body, or a GET. What changes something knows its ``caller``."""

    path: str
    summary: str
    answer: Callable[[bytes, Mapping[str, str]], Awaitable[Answer]]
    """Computes the answer from the body and the query parameters. An exception becomes a response with status 500."""
    most_bytes: int
    """Maximum size of the body; reading stops at this size."""
    admit: Callable[[str], Awaitable[Answer | None]] | None = None
    """Returns a refusal or None for the credential of the request's headers, before the body is read; without it access
    is open."""
    body: Mapping[str, object] = field(default_factory=lambda: {"type": "object"})
    """The JSON schema of the body, for the OpenAPI document."""
    method: Literal["POST", "GET"] = "POST"
    """GET: without a body; parameters of the path come as parameters of the query do."""
    caller: Callable[[str], Awaitable[str]] | None = None
    """The name of who sent the admitted credential; ``answer`` gets it as the parameter ``CALLER``, which no client can
    set."""


@dataclass
class Service:
    """What ``build`` of a service returns."""

    name: str
    loops: Sequence[Loop]
    metrics: Metrics
    status: Callable[[], dict[str, object]]
    """A small JSON document for people and for the console."""
    missing: Callable[[], list[str]] = field(default=lambda: [])
    """What the service waits for, as sentences; empty when it can work."""
    notes: Callable[[], list[str]] = field(default=lambda: [])
    """What is wrong beside its work, as sentences: a service with notes is ready."""
    close: Callable[[], Awaitable[None]] | None = None
    questions: Sequence[Question] = ()
    """Additional POST endpoints of the status server."""
    add_routes: Callable[[Any], None] | None = None
    """Adds routes of its own to the FastAPI app of the status server."""
    admit_profile: Callable[[str], Awaitable[Answer | None]] | None = None
    """As a question's ``admit``, for ``/debug/profile``: where a service checks who asks, it checks there too."""

    def unready(self, now: float) -> list[str]:
        """Every reason why this service cannot do its work now."""
        complaints = [loop.complaint(now) for loop in self.loops]
        return [*self.missing(), *filter(None, complaints)]


def periodic(
    name: str,
    seconds: float,
    act: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    jitter: random.Random,
) -> Loop:
    """A loop that acts immediately and then every ``seconds`` +-20 %, until ``stop`` is set."""
    loop = Loop(name=name, run=until_stopped, late_seconds=max(3 * seconds, 30.0))

    async def run(stop: asyncio.Event) -> None:
        while not stop.is_set():
            begun = clock.monotonic()
            await act()
            loop.succeeded(clock.monotonic())
            if loop.count_turn is not None:
                loop.count_turn(name, clock.monotonic() - begun)
            await pause(stop, seconds * jitter.uniform(0.8, 1.2))

    loop.run = run
    return loop


async def until_stopped(stop: asyncio.Event) -> None:
    """Wait until ``stop`` is set."""
    await stop.wait()


async def supervise(loop: Loop, stop: asyncio.Event, metrics: Metrics, clock: Clock) -> None:
    """Run a loop until ``stop``; on an error log it and start it again. A loop that ends in any other way says so."""
    loop.ended = False
    try:
        await _run_again_and_again(loop, stop, metrics, clock)
    finally:
        loop.ended = True


async def _run_again_and_again(
    loop: Loop, stop: asyncio.Event, metrics: Metrics, clock: Clock
) -> None:
    backoff = _pauses()
    loop.count_turn = metrics.count_turn
    metrics.expect_loop(loop.name)
    loop.beat = clock.monotonic()  # Only here, because a restart after an error is not progress.
    while not stop.is_set():
        loop.started = clock.monotonic()
        try:
            await loop.run(stop)
            return
        except DovetailError as error:
            metrics.count_failed_turn(loop.name, foreseen=True)
            loop.failed(clock.monotonic(), error.message)
            log.warning("loop failed", loop=loop.name, error=error.message, **_safe(error.context))
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # the runtime is one of the two places that may
            # Of a task that nobody cancelled, what it waited for was: a failure as any other.
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            metrics.count_failed_turn(loop.name, foreseen=False)
            loop.failed(clock.monotonic(), repr(error)[:256])
            log.exception("loop failed unexpectedly", loop=loop.name)
        metrics.loop_failures.labels(loop.name).inc()
        if loop.failures == 1:
            backoff.reset()
        await pause(stop, backoff.next())


def _pauses() -> Backoff:
    first, longest = BACKOFF_SECONDS
    return Backoff(None, first=first, cap=longest)


def _safe(context: dict[str, object]) -> dict[str, object]:
    """Context keys that do not collide with the log line's own."""
    return {f"error_{key}": str(value) for key, value in context.items()}


async def run(services: Sequence[Service], serve: Loop, *, clock: Clock) -> None:
    """Run all loops of all services plus the status server until SIGTERM or SIGINT.

    Raises TimeoutError when something did not stop within ``STOP_SECONDS``.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with TaskGroup() as group:
        tasks = [
            group.create_task(supervise(part, stop, service.metrics, clock), name=part.name)
            for service in services
            for part in service.loops
        ]
        tasks.append(group.create_task(serve.run(stop)))
        log.info("running", services=[service.name for service in services])
        await stop.wait()
        log.info("stopping")
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS - 5)
        for task in late:
            log.warning("loop did not stop in time", task=task.get_name())
            task.cancel()
    for service in services:
        if service.close is not None:
            await service.close()
    log.info("stopped")
