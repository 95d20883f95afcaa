"""The picture of the last hour: a compressed picture each minute and the changes between, within a number of bytes.

What is older than the horizon is dropped; so is the oldest when the bytes would pass their bound.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

HORIZON_SECONDS = 3600.0
PICTURE_SECONDS = 60.0
"""Between two whole pictures: as many seconds of changes are replayed for a moment between them."""
MOST_BYTES = 48 << 20
SEGMENT_SECONDS = 5.0
_LEVEL = 1


@dataclass(frozen=True)
class _Part:
    """One whole picture (``changes`` False) or the changes of some seconds, compressed."""

    begin: float
    end: float
    changes: bool
    body: bytes

    def read(self) -> list[dict[str, Any]]:
        return list(orjson.loads(zlib.decompress(self.body)))


@dataclass
class History:
    """Parts in the order of time. Times are seconds since the epoch."""

    horizon_seconds: float = HORIZON_SECONDS
    most_bytes: int = MOST_BYTES
    _parts: deque[_Part] = field(default_factory=deque)
    _bytes: int = 0
    _open: list[bytes] = field(default_factory=list)
    _opened_at: float = 0.0
    _last_at: float = 0.0
    _pictured_at: float | None = None

    def wants_picture(self, now: float) -> bool:
        """Whether a whole picture is due."""
        return self._pictured_at is None or now - self._pictured_at >= PICTURE_SECONDS

    def add_picture(self, at: float, packed: bytes) -> None:
        """``packed``: the encoded snapshot as ``pack`` makes it, which takes tens of ms for a large cluster."""
        self.close()
        self._pictured_at = at
        self._keep(_Part(at, at, False, packed))

    def add_change(self, at: float, body: bytes) -> None:
        """``body``: one encoded change."""
        if self._open and at - self._opened_at >= SEGMENT_SECONDS:
            self.close()
        if not self._open:
            self._opened_at = at
        self._open.append(body)
        self._last_at = at

    def put_before(self, earlier: History) -> None:
        """Show also what ``earlier``, which is closed, holds of the time before the first picture here."""
        first = self._parts[0].begin if self._parts else float("inf")
        older = [part for part in earlier._parts if part.end < first]
        self._parts.extendleft(reversed(older))
        self._bytes += sum(len(part.body) for part in older)
        self._drop_old()

    def close(self) -> None:
        """Compress the changes that were added last."""
        if self._open:
            packed = pack(*self._open)
            self._open = []
            self._keep(_Part(self._opened_at, self._last_at, True, packed))

    def _keep(self, part: _Part) -> None:
        self._parts.append(part)
        self._bytes += len(part.body)
        self._drop_old()

    def _drop_old(self) -> None:
        while self._parts and self._is_too_much(self._parts[-1].end):
            self._bytes -= len(self._parts.popleft().body)
        while self._parts and self._parts[0].changes:  # changes without the picture they follow
            self._bytes -= len(self._parts.popleft().body)

    def _is_too_much(self, now: float) -> bool:
        """The oldest picture stays until the next one is at the horizon, so that the whole hour can be shown."""
        if self._bytes > self.most_bytes:
            return len(self._parts) > 1
        later = [part for part in self._parts if not part.changes][1:2]
        return bool(later) and later[0].begin < now - self.horizon_seconds

    def span(self, now: float) -> tuple[float, float] | None:
        """From when to when moments can be shown; None while there is nothing."""
        if not self._parts:
            return None
        return max(self._parts[0].begin, now - self.horizon_seconds), now

    def recording(self) -> Recording:
        """What is held now. Reading it takes long, and may be done in a thread while more is added here."""
        return Recording(tuple(self._parts), tuple(self._open))


@dataclass(frozen=True)
class Recording:
    """Parts in the order of time, and the encoded changes after them."""

    parts: tuple[_Part, ...]
    latest: tuple[bytes, ...]

    def at(self, moment: float) -> dict[str, Any] | None:
        """The snapshot as of ``moment``; the oldest one for an earlier moment, None while there is none."""
        pictures = [part for part in self.parts if not part.changes]
        if not pictures:
            return None
        base = max(
            (one for one in pictures if one.begin <= moment), default=pictures[0], key=_begin
        )
        snapshot = base.read()[0]
        return replayed(snapshot, self._changes_between(base.begin, moment))

    def changes(self, begin: float, end: float) -> list[dict[str, Any]]:
        """The changes after ``begin`` until ``end``."""
        return list(self._changes_between(begin, end))

    def _changes_between(self, begin: float, end: float) -> Iterator[dict[str, Any]]:
        closed = [p.read() for p in self.parts if p.changes and p.end >= begin and p.begin <= end]
        for change in [*(one for part in closed for one in part), *map(orjson.loads, self.latest)]:
            if begin < change["at"] <= end:
                yield change


def pack(*bodies: bytes) -> bytes:
    """Encoded JSON objects as one compressed list."""
    return zlib.compress(b"[" + b",".join(bodies) + b"]", _LEVEL)


def _begin(part: _Part) -> float:
    return part.begin


def replayed(snapshot: dict[str, Any], changes: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The snapshot after these changes, as the page applies them: what is gone first, then the rows."""
    rows = {kind: {row["id"]: row for row in snapshot[kind]} for kind in ("nodes", "pods")}
    head = dict(snapshot)
    for change in changes:
        for kind, held in rows.items():
            for gone in change["gone"][kind]:
                held.pop(gone, None)
            held.update((row["id"], row) for row in change["put"][kind])
        head |= {name: change[name] for name in ("id", "at", "trusted")}
    return head | {kind: list(held.values()) for kind, held in rows.items()}
