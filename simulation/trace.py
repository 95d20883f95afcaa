"""The record of one run: numbered events, a running hash, observers."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

KEPT_EVENTS = 2_000
"""The last events, for the report of a broken invariant."""
Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``at``: virtual seconds since the start of the run."""

    number: int
    at: float
    kind: str
    fields: dict[str, Value]

    def line(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(
            {"number": self.number, "at": round(self.at, 6), "kind": self.kind, **self.fields}
        )

    def __str__(self) -> str:
        said = " ".join(f"{key}={value}" for key, value in self.fields.items() if value is not None)
        return f"{self.at:10.3f}  {self.kind:<9}{said}"


class Trace:
    """Events in order. ``time`` returns virtual seconds since the start."""

    def __init__(
        self, time: Callable[[], float], write: Callable[[bytes], object] | None = None
    ) -> None:
        self._time, self._write = time, write
        self._hash = hashlib.blake2b(digest_size=16)
        self._observers: list[Callable[[Event], None]] = []
        self.number = 0
        self.last: deque[Event] = deque(maxlen=KEPT_EVENTS)

    def add(self, kind: str, **fields: Value) -> None:
        """Record an event and call the observers."""
        self.number += 1
        event = Event(self.number, self._time(), kind, fields)
        self.last.append(event)
        line = event.line()
        self._hash.update(line)
        if self._write is not None:
            self._write(line + b"\n")
        for observer in self._observers:
            observer(event)

    def carry(self, data: bytes) -> None:
        """Bytes that one party sent to another: part of the hash, and no event."""
        self._hash.update(data)

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Call ``observer`` with each further event."""
        self._observers.append(observer)

    @property
    def digest(self) -> str:
        """The hash of all events and carried bytes so far, in hexadecimal."""
        return self._hash.hexdigest()
