"""Faults that tests order: the next ``count`` calls of one action fail, before or after the work is
done.

``mode`` ``before`` answers without doing anything; ``after`` does the work and then spoils the
answer, which is how a lost answer looks to a client. Status 0 closes the connection without an
answer. The pseudo-action ``KMSDecrypt`` makes the next instances end at once (LCH-67).
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass

ACTION_FAULT_LIMIT = 100
"""Most waiting fault entries per action."""

DROPPED = 0
"""Status that means: close the connection."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What the spoiled answer says."""

    code: str
    message: str
    status: int
    mode: str


@dataclass(slots=True)
class _Entry:
    fault: Fault
    remaining: int


class Faults:
    """First in, first out per action. Safe to use from every request thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, deque[_Entry]] = defaultdict(deque)

    def order(self, action: str, fault: Fault, number: int) -> None:
        """The next ``number`` calls of ``action`` meet ``fault``. Raises OverflowError when too
        many wait.
        """
        with self._lock:
            if len(self._waiting[action]) >= ACTION_FAULT_LIMIT:
                raise OverflowError(f"{ACTION_FAULT_LIMIT} faults wait for {action} already")
            self._waiting[action].append(_Entry(fault, number))

    def take(self, action: str) -> Fault | None:
        """The fault that this call meets, used up by asking."""
        if action not in self._waiting:
            return None
        with self._lock:
            entries = self._waiting.get(action)
            if not entries:
                return None
            entry = entries[0]
            entry.remaining -= 1
            if entry.remaining <= 0:
                entries.popleft()
            if not entries:
                del self._waiting[action]
            return entry.fault

    def clear(self) -> None:
        """Cancel every ordered fault."""
        with self._lock:
            self._waiting.clear()
