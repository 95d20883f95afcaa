"""Writes Events; a repeated event raises a count and is not stored again.

Callers never wait: records queue up to ``QUEUE_LIMIT`` and are dropped beyond it (the log counts them), because no
component depends on an Event. A repetition (same object, reason and text) raises ``count`` and ``lastTimestamp``
(client-go's EventCorrelator); another text with the same ``reason`` creates a new Event.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict, deque
from typing import Any

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.informers import Obj
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock, rfc3339
from shared.log import get_logger

log = get_logger(__name__)

QUEUE_LIMIT = 20_000
REMEMBERED = 20_000

Identity = tuple[str, str, str]


class EventRecorder:
    """The Event writer of all components."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._pending: deque[tuple[Obj, str, str, str, str]] = deque()
        self._names: OrderedDict[Identity, tuple[str, str, int]] = OrderedDict()
        self._sequence = itertools.count(int(clock.now() * 1e6))
        self._wake = asyncio.Event()
        self._dropped = 0

    def record(
        self, obj: Obj, reason: str, message: str, *, component: str, event_type: str = "Normal"
    ) -> None:
        """Queue an event about ``obj``."""
        if len(self._pending) >= QUEUE_LIMIT:
            self._dropped += 1
            return
        self._pending.append((obj, reason, message, component, event_type))
        self._wake.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        turn = TimeSlice(0.005)
        while True:
            if not self._pending:
                self._report_drops()
                self._wake.clear()
                await self._wake.wait()
            self._write(*self._pending.popleft())
            await turn.share()

    def _report_drops(self) -> None:
        if self._dropped:
            log.warning("events dropped, the queue was full", dropped=self._dropped)
            self._dropped = 0

    def _write(self, obj: Obj, reason: str, message: str, component: str, event_type: str) -> None:
        identity = (obj["metadata"].get("uid") or "", reason, message)
        known = self._names.pop(identity, None)
        try:
            if known is None or not self._repeat(identity, *known):
                self._create(identity, obj, component, event_type)
        except ApiError as error:
            log.debug("event not written", reason=reason, error=error.message)
        while len(self._names) > REMEMBERED:
            self._names.popitem(last=False)

    def _repeat(self, identity: Identity, namespace: str, name: str, count: int) -> bool:
        if self._store.find("events", name, namespace=namespace) is None:
            return False
        body = {"count": count + 1, "lastTimestamp": rfc3339(self._clock.now())}
        self._store.patch("events", name, body, namespace=namespace)
        self._names[identity] = (namespace, name, count + 1)
        return True

    def _create(self, identity: Identity, obj: Obj, component: str, event_type: str) -> None:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        name = f"{metadata['name']}.{next(self._sequence):x}"
        now = rfc3339(self._clock.now())
        event: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": obj.get("kind"),
                "apiVersion": obj.get("apiVersion"),
                "name": metadata["name"],
                "uid": metadata.get("uid"),
                **({"namespace": namespace} if metadata.get("namespace") else {}),
            },
            "reason": identity[1],
            "message": identity[2],
            "type": event_type,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
        }
        self._store.create("events", event, namespace=namespace)
        self._names[identity] = (namespace, name, 1)
