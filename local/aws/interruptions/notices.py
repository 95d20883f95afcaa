"""Announcements to an instance that its metadata service shows.

Written by the same interruptions that go to the queue, read by ``imds``. Bounded: the oldest instance is dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

NOTICE_LIMIT = 10_000
MAINTENANCE_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Maintenance:
    """One scheduled event. Times are epoch seconds."""

    event_id: str
    code: str
    description: str
    not_before: float
    not_after: float


@dataclass(frozen=True, slots=True)
class Notice:
    """Everything announced to one instance. Times are epoch seconds; None: not announced."""

    ends_at: float | None = None
    rebalance_at: float | None = None
    maintenance: tuple[Maintenance, ...] = ()
    target_lifecycle_state: str | None = None


class Notices:
    """Notices by instance id. Safe to use from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_instance: dict[str, Notice] = {}

    def of(self, instance_id: str) -> Notice:
        """The notice of an instance; empty when nothing was announced."""
        return self._by_instance.get(instance_id, Notice())

    def warn_spot(self, instance_id: str, ends_at: float) -> None:
        """Record a spot warning. Only the first one counts: a repeated warning does not delay the end."""
        self._change(instance_id, lambda n: n if n.ends_at else replace(n, ends_at=ends_at))

    def recommend_rebalance(self, instance_id: str, at: float) -> None:
        """Record a rebalance recommendation. Only the first one counts."""
        self._change(instance_id, lambda n: n if n.rebalance_at else replace(n, rebalance_at=at))

    def schedule(self, instance_id: str, event: Maintenance) -> None:
        """Add a scheduled event; the oldest one is dropped when there are too many."""
        self._change(
            instance_id,
            lambda n: replace(n, maintenance=(*n.maintenance, event)[-MAINTENANCE_LIMIT:]),
        )

    def cancel_maintenance(self, instance_id: str) -> None:
        """Remove the scheduled events."""
        self._change(instance_id, lambda n: replace(n, maintenance=()))

    def set_lifecycle(self, instance_id: str, state: str | None) -> None:
        """Set the target lifecycle state of an auto scaling group."""
        self._change(instance_id, lambda n: replace(n, target_lifecycle_state=state))

    def forget(self, instance_id: str) -> None:
        """Remove the notice of a deleted instance."""
        with self._lock:
            self._by_instance.pop(instance_id, None)

    def clear(self) -> None:
        """Remove every notice."""
        with self._lock:
            self._by_instance.clear()

    def _change(self, instance_id: str, change: Callable[[Notice], Any]) -> None:
        with self._lock:
            if instance_id not in self._by_instance and len(self._by_instance) >= NOTICE_LIMIT:
                del self._by_instance[next(iter(self._by_instance))]
            self._by_instance[instance_id] = change(self.of(instance_id))
