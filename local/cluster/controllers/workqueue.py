"""The work queue of controllers: each waiting key is queued once, and is queued again after a failure.

A key that was just reconciled rests briefly, so a burst of pod events costs one reconcile instead of hundreds. The rest
grows with the duration of the reconcile (a ReplicaSet of 10,000 pods takes longer). Failures back off from 20 ms to 5 s
per key; a failed compare-and-set is repeated without a log line because it is normal.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.informers import (
    Handler,
    Informers,
    Key,
    KeyIndex,
    Obj,
    controllers_of,
    find,
    key_of,
)
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock
from shared.log import get_logger

log = get_logger(__name__)

FIRST_RETRY = 0.02
LONGEST_RETRY = 5.0
COALESCE_SECONDS = 0.01
COALESCE_FACTOR = 4.0
"""Rest of a key after a reconcile, as a multiple of the reconcile's duration."""


class WorkQueue:
    """Keys that need a reconcile, each at most once, some of them after a delay."""

    def __init__(self) -> None:
        self._ready: dict[Key, None] = {}
        self._due: dict[Key, asyncio.TimerHandle] = {}
        self._rest_until: dict[Key, float] = {}
        self._wake = asyncio.Event()

    def add(self, key: Key) -> None:
        """Request a reconcile of ``key`` as soon as its rest is over."""
        rest = self._rest_until.get(key, 0.0) - asyncio.get_running_loop().time()
        if rest > 0:
            self.add_after(key, rest)
        else:
            self._make_ready(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Request a reconcile in ``seconds``; an earlier request for the same key takes precedence."""
        loop = asyncio.get_running_loop()
        timer = self._due.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._due[key] = loop.call_later(seconds, self._make_ready, key)

    async def get(self) -> Key:
        """Wait for the next key."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._ready))
        del self._ready[key]
        return key

    def rest(self, key: Key, seconds: float) -> None:
        """Start the rest of ``key``, and drop rests that are over."""
        now = asyncio.get_running_loop().time()
        if len(self._rest_until) > 1000:
            self._rest_until = {k: t for k, t in self._rest_until.items() if t > now}
        self._rest_until[key] = now + seconds

    def _make_ready(self, key: Key) -> None:
        timer = self._due.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._ready[key] = None
        self._wake.set()


class Controller(ABC):
    """Moves the objects of one key towards their desired state. ``plural`` and ``group``: the kind of the keys."""

    name: str
    plural: str
    group: str = ""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.queue = WorkQueue()

    @abstractmethod
    def register(self, informers: Informers) -> None:
        """Subscribe to the events that may change the outcome."""

    @abstractmethod
    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one key. Returns the seconds after which to reconcile again, if any."""

    def on_own(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        """Handler: request a reconcile of the object itself, unless it was deleted."""
        if event_type != "DELETED":
            self.queue.add(key_of(obj))

    def on_owned(self, kind: str) -> Handler:
        """A handler that requests a reconcile of the object of ``kind`` that controls the changed one."""

        def handler(_event_type: str, obj: Obj, _old: Obj | None) -> None:
            for owner in controllers_of(obj, kind):
                self.queue.add(owner)

        return handler

    def find(self, key: Key) -> Obj | None:
        """The object of ``key`` as currently stored, or None. Read only."""
        return find(self._store, self.plural, key, group=self.group)

    def set_status(self, obj: Obj, status: dict[str, Any]) -> None:
        """Write the object's status when it differs."""
        if status != obj.get("status"):
            changed = {**obj, "status": status}
            self._store.update(self.plural, changed, group=self.group, subresource="status")

    def delete(
        self,
        plural: str,
        obj: Obj,
        *,
        group: str = "",
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete an object, and never a newer one of its name. Raises ApiError."""
        metadata = obj["metadata"]
        self._store.delete(
            plural,
            metadata["name"],
            group=group,
            namespace=metadata.get("namespace"),
            uid=metadata["uid"],
            grace_seconds=grace_seconds,
            propagation=propagation,
        )


class WorkloadController(Controller):
    """Keeps the pods of the workloads of one ``kind``. Events name ``component`` as their source."""

    kind: str
    component: str = ""

    def __init__(
        self,
        store: Store,
        pods: KeyIndex,
        recorder: EventRecorder,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """``pods``: by the uid of their controlling owner."""
        super().__init__(store)
        self._pods, self._clock, self._rng = pods, clock, rng
        self._record = partial(recorder.record, component=self.component)

    def register(self, informers: Informers) -> None:
        """Watch the workloads and the pods that they own."""
        informers.on(self.plural, self.on_own, group=self.group)
        informers.on("pods", self.on_owned(self.kind))


class Worker:
    """Runs one controller from its queue."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._retries: dict[Key, float] = {}

    async def run(self) -> None:
        """Reconcile keys until cancelled. An error of one key delays that key only."""
        queue = self._controller.queue
        while True:
            key = await queue.get()
            started = asyncio.get_running_loop().time()
            again = await self._attempt(key, self._controller.reconcile)
            took = asyncio.get_running_loop().time() - started
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
