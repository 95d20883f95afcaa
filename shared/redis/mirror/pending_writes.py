"""Writes of this process that the mirror does not show yet: read your own writes.

The mirror follows the API server with some delay. A controller that decides from the mirror alone would repeat a
decision that it has just carried out. It therefore records each write here, and the write counts until the mirror shows
it.

What may go wrong: the mirror never shows the write, because the write was lost or undone. ``most_seconds`` bounds how
long such a write counts. Without this bound (where a repetition would be worse than waiting) the caller's ``is_shown``
must become true in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Write(NamedTuple, Generic[Value]):
    """``least`` and ``most`` are monotonic times: the write counts in any case before the first, and never after the
    second."""

    value: Value
    least: float
    most: float


class PendingWrites(Generic[Key, Value]):
    """The latest write of each key. Times are monotonic seconds; calls without bounds need none."""

    def __init__(self) -> None:
        self._writes: dict[Key, _Write[Value]] = {}

    def __len__(self) -> int:
        return len(self._writes)

    def note(
        self,
        key: Key,
        value: Value,
        *,
        now: float = 0.0,
        least_seconds: float = 0.0,
        most_seconds: float = math.inf,
    ) -> None:
        """Record that ``key`` was written. The write counts for ``least_seconds`` even when the mirror seems to show
        it: that state may be older than the write."""
        self._writes[key] = _Write(value, now + least_seconds, now + most_seconds)

    def get(self, key: Key, *, now: float = 0.0) -> Value | None:
        """The written value while the write counts; None otherwise."""
        write = self._writes.get(key)
        return write.value if write is not None and now < write.most else None

    def unshown(
        self, is_shown: Callable[[Key, Value], bool], *, now: float = 0.0
    ) -> dict[Key, Value]:
        """The writes that still count. Writes that are shown or too old are removed."""
        self._writes = {
            key: write
            for key, write in self._writes.items()
            if now < write.most and (now < write.least or not is_shown(key, write.value))
        }
        return {key: write.value for key, write in self._writes.items()}

    def values(self) -> list[Value]:
        """All values held since the last ``unshown``."""
        return [write.value for write in self._writes.values()]

    def discard(self, key: Key) -> None:
        """Remove the write of ``key``."""
        self._writes.pop(key, None)

    def clear(self) -> None:
        """Remove all writes, as after a restart."""
        self._writes.clear()
