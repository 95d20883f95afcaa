"""What this process wrote and its picture of the cluster does not show yet: read your own writes.

The mirror follows the API server with some delay. Whoever decides from the mirror alone decides anew what it has just
done. It therefore notes each write here and lets it count until the picture shows it.

What may go wrong: the picture never shows the write, because it got lost or somebody undid it. ``most_seconds`` bounds
how long such a write counts. Where a wrong repetition would be worse than waiting there is no such bound, and the
caller's ``is_shown`` must become true in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Write(NamedTuple, Generic[Value]):
    """``least`` and ``most``: monotonic seconds before which it counts in any case, and from which it no longer
    does."""

    value: Value
    least: float
    most: float


class PendingWrites(Generic[Key, Value]):
    """The latest write of each key. Times are monotonic seconds; where no bound is given they need not be either."""

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
        """``key`` was written. It counts for ``least_seconds`` although it seems to be shown: the picture may be one
        from before the write."""
        self._writes[key] = _Write(value, now + least_seconds, now + most_seconds)

    def get(self, key: Key, *, now: float = 0.0) -> Value | None:
        """What was written and still counts; None for nothing."""
        write = self._writes.get(key)
        return write.value if write is not None and now < write.most else None

    def unshown(
        self, is_shown: Callable[[Key, Value], bool], *, now: float = 0.0
    ) -> dict[Key, Value]:
        """What still counts. Writes that are shown or too old are forgotten."""
        self._writes = {
            key: write
            for key, write in self._writes.items()
            if now < write.most and (now < write.least or not is_shown(key, write.value))
        }
        return {key: write.value for key, write in self._writes.items()}

    def values(self) -> list[Value]:
        """All that is held, as of the last ``unshown``."""
        return [write.value for write in self._writes.values()]

    def discard(self, key: Key) -> None:
        """This write no longer counts."""
        self._writes.pop(key, None)

    def clear(self) -> None:
        """Forget all, as a new process does."""
        self._writes.clear()
