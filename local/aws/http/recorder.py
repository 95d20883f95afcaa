"""The last API calls with their parameters, for assertions. Bounded: the oldest are dropped."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

CALL_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Call:
    """One API call. ``at`` is epoch seconds; ``code`` is the AWS error code or None; ``status`` is what the client
    received.
    """

    at: float
    service: str
    action: str
    parameters: dict[str, Any]
    code: str | None
    status: int


class Recorder:
    """A bounded list of calls."""

    def __init__(self, limit: int = CALL_LIMIT) -> None:
        self._lock = threading.Lock()
        self._calls: deque[Call] = deque(maxlen=limit)

    def record(self, call: Call) -> None:
        """Keep ``call``, drop the oldest when full."""
        with self._lock:
            self._calls.append(call)

    @property
    def latest(self) -> Call | None:
        """The last call; None before the first."""
        with self._lock:
            return self._calls[-1] if self._calls else None

    def calls(self, action: str | None = None) -> list[Call]:
        """The calls, oldest first; only those of ``action`` when given."""
        with self._lock:
            return [call for call in self._calls if action in (None, call.action)]

    def clear(self) -> None:
        """Delete every call."""
        with self._lock:
            self._calls.clear()
