"""The keys of the server: values, expiry, and a log that takes the latest writes back.

Each change of a value first notes how to undo it (``undo``). A failover to a replica that lags behind undoes the
changes of the last seconds, newest first. Older notes are dropped, so the log is bounded by time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from simulation.servers.redis.resp import WRONG_TYPE, CommandError

UNDO_SECONDS = 5.0
"""How far back a failover can go."""

_T = TypeVar("_T")


class Keyspace:
    """One database. ``wall_time``: seconds since the epoch. ``version``: that of the Redis whose replies are given."""

    def __init__(self, wall_time: Callable[[], float], version: tuple[int, ...]) -> None:
        self._wall_time = wall_time
        self.version = version
        self.is_redis_6 = version < (7,)
        self._values: dict[bytes, Any] = {}
        self._expiry: dict[bytes, int] = {}
        self._due: list[tuple[int, bytes]] = []
        """A heap of (milliseconds, key); entries of changed or removed expiries stay until they are due."""
        self._log: deque[tuple[float, Callable[[], object]]] = deque()
        self.ready: list[bytes] = []
        """Streams that have got an entry or have vanished since ``Waiters`` last served blocked readers."""
        self.now = 0
        """Milliseconds since the epoch, the same during one command. Updated by ``begin``."""

    def begin(self) -> None:
        """Start a command: take the time, drop what has expired and what is too old to be undone."""
        seconds = self._wall_time()
        self.now = int(seconds * 1000)
        while self._log and self._log[0][0] < seconds - UNDO_SECONDS:
            self._log.popleft()
        while self._due and self._due[0][0] <= self.now:
            at, key = heapq.heappop(self._due)
            if self._expiry.get(key) == at:
                self.delete(key)

    def microseconds(self) -> tuple[int, int]:
        """Seconds since the epoch and the microseconds beyond them."""
        return divmod(int(self._wall_time() * 1_000_000), 1_000_000)

    def undo(self, action: Callable[[], object]) -> None:
        """Note how to take the change back that follows."""
        self._log.append((self.now / 1000, action))

    def take_back(self, seconds: float) -> None:
        """Undo the changes of the last ``seconds``, at most ``UNDO_SECONDS``."""
        since = self._wall_time() - seconds
        while self._log and self._log[-1][0] > since:
            self._log.pop()[1]()
        # Undoing has restored expiries without the heap.
        self._due = sorted((at, key) for key, at in self._expiry.items())

    def find(self, key: bytes, kind: type[_T]) -> _T | None:
        """The value, None for an absent key. Raises CommandError for a value of another type."""
        value = self._values.get(key)
        if value is None or type(value) is kind:
            return value
        raise CommandError(WRONG_TYPE)

    def any(self, key: bytes) -> Any:
        """The value of any type, None for an absent key."""
        return self._values.get(key)

    def __contains__(self, key: bytes) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: bytes, value: Any, *, keep_expiry: bool = False) -> None:
        """Replace the value; the key does not expire any more unless ``keep_expiry``."""
        self._note(key)
        self._values[key] = value
        if not keep_expiry:
            self._expiry.pop(key, None)

    def delete(self, key: bytes) -> bool:
        """Whether the key existed."""
        if key not in self._values:
            return False
        self._note(key)
        del self._values[key]
        self._expiry.pop(key, None)
        self.ready.append(key)
        return True

    def clear(self) -> None:
        """Delete all keys."""
        for key in list(self._values):
            self.delete(key)

    def expires_at(self, key: bytes) -> int | None:
        """Milliseconds since the epoch; None: never."""
        return self._expiry.get(key)

    def expire(self, key: bytes, at: int | None) -> None:
        """Let an existing key expire at ``at``, in milliseconds since the epoch; None: never."""
        if at is not None and at <= self.now:
            self.delete(key)
            return
        self._note(key)
        if at is None:
            self._expiry.pop(key, None)
        else:
            self._expiry[key] = at
            heapq.heappush(self._due, (at, key))

    def __iter__(self) -> Iterator[bytes]:
        """The keys that have not expired, in the order in which they were made."""
        now = int(self._wall_time() * 1000)
        for key in self._values:
            if self._expiry.get(key, now + 1) > now:
                yield key

    def _note(self, key: bytes) -> None:
        """How to restore this key: its value (the object, not a copy of it) and its expiry."""
        value, at = self._values.get(key), self._expiry.get(key)

        def restore() -> None:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
            if at is None:
                self._expiry.pop(key, None)
            else:
                self._expiry[key] = at

        self.undo(restore)
