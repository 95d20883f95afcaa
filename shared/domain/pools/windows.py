"""Times at which something holds, and the capacity that a pool keeps at such times. Records only."""

from __future__ import annotations

from typing import Protocol

import msgspec

PERCENT_OF = ("cpu", "memory")
"""The resources of which a percentage is kept free."""


class Scheduled(Protocol):
    """Whatever holds at certain times. Without a schedule it always holds."""

    @property
    def schedule(self) -> str:
        """A cron expression of five fields or a macro such as ``@daily``, in UTC."""

    @property
    def duration_seconds(self) -> float | None:
        """How long it holds each time."""


class Window(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """When a pool is open. Read like a budget's schedule and duration (NP-11)."""

    schedule: str = ""
    duration_seconds: float | None = None


class KeptCapacity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Capacity that a pool keeps, whether or not pods need it: a minimum, or headroom."""

    amounts: dict[str, int] = {}
    """cpu, memory, and of a minimum nodes."""
    percent: int = 0
    """Of headroom: of what the pool's pods request."""
    schedule: str = ""
    duration_seconds: float | None = None
