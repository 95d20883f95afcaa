"""The work queue of controllers: a key waits once, however often it is added, and comes again after
a failure.

A key that was reconciled a moment ago waits a little, so that a burst of pod events costs one
reconcile instead of hundreds. The wait grows with the time the reconcile took (a ReplicaSet of
10,000 pods takes longer). Failures back off from 20 ms to 5 s per key; a lost compare-and-set is
repeated without a log line because it is normal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.informers import Informers, Key
from shared.log import get_logger

log = get_logger(__name__)

FIRST_RETRY = 0.02
LONGEST_RETRY = 5.0
COALESCE_SECONDS = 0.01
COALESCE_FACTOR = 4.0
"""A key rests this many times as long as its last reconcile took."""


class WorkQueue:
    """Keys that need work, each at most once, some of them only after a delay."""

    def __init__(self) -> None:
        self._ready: dict[Key, None] = {}
        self._due: dict[Key, asyncio.TimerHandle] = {}
        self._rest_until: dict[Key, float] = {}
        self._wake = asyncio.Event()

    def add(self, key: Key) -> None:
        """Ask for a reconcile of ``key`` as soon as it has rested."""
        rest = self._rest_until.get(key, 0.0) - time.monotonic()
        if rest > 0:
            self.add_after(key, rest)
        else:
            self._make_ready(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Ask for a reconcile in ``seconds``; an earlier request for the same key stands."""
        loop = asyncio.get_running_loop()
        timer = self._due.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._due[key] = loop.call_later(seconds, self._make_ready, key)

    async def get(self) -> Key:
        """The next key."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._ready))
        del self._ready[key]
        return key

    def rest(self, key: Key, seconds: float) -> None:
        """Delay later requests for ``key``; forget the rests that are over."""
        now = time.monotonic()
        if len(self._rest_until) > 1000:
            self._rest_until = {k: t for k, t in self._rest_until.items() if t > now}
        self._rest_until[key] = now + seconds

    def _make_ready(self, key: Key) -> None:
        timer = self._due.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._ready[key] = None
        self._wake.set()


class Controller(Protocol):
    """Brings the objects that one key stands for nearer to what is wanted."""

    name: str
    queue: WorkQueue

    def register(self, informers: Informers) -> None:
        """Subscribe to what may change the outcome."""
        ...

    async def reconcile(self, key: Key) -> float | None:
        """Do the work; the number of seconds after which to look again, if any."""
        ...


class Worker:
    """Feeds one controller from its queue."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._retries: dict[Key, float] = {}

    async def run(self) -> None:
        """Reconcile keys until cancelled. An error of one key delays that key only."""
        queue = self._controller.queue
        while True:
            key = await queue.get()
            started = time.monotonic()
            again = await self._attempt(key, self._controller.reconcile)
            took = time.monotonic() - started
            queue.rest(key, COALESCE_SECONDS + COALESCE_FACTOR * took)
            if again is not None:
                queue.add_after(key, again)
            await asyncio.sleep(0)

    async def _attempt(
        self, key: Key, reconcile: Callable[[Key], Awaitable[float | None]]
    ) -> float | None:
        try:
            again = await reconcile(key)
        except ApiError as error:
            retry = self._next_retry(key)
            if error.code not in (404, 409):
                log.warning(
                    "reconcile refused",
                    controller=self._controller.name,
                    key=str(key),
                    reason=error.reason,
                    error=error.message,
                )
            return retry
        except Exception:
            retry = self._next_retry(key)
            log.exception("reconcile failed", controller=self._controller.name, key=str(key))
            return retry
        self._retries.pop(key, None)
        return again

    def _next_retry(self, key: Key) -> float:
        retry = self._retries.get(key, FIRST_RETRY)
        self._retries[key] = min(retry * 2, LONGEST_RETRY)
        return retry
