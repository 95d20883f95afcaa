"""Values that are remembered for a while: a process that runs for months holds only those that still count."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")

MOST = 50_000
_FEW = 256
"""So many entries are not worth a look for expired ones."""


class Expiring(Generic[Value]):
    """At most ``most`` values by name; the oldest goes first. ``now``: monotonic seconds.

    Expired ones go whenever their number may have doubled, so that a value costs little and memory follows what counts.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._values: OrderedDict[str, tuple[float, Value]] = OrderedDict()
        self._next_look = _FEW

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str, now: float) -> Value | None:
        """The value, unless it expired or there is none."""
        until, value = self._values.get(name, (now, None))
        return value if until > now else None

    def put(self, name: str, value: Value, *, now: float, seconds: float) -> None:
        """Remember ``value`` for ``seconds`` from now."""
        self._values[name] = now + seconds, value
        self._values.move_to_end(name)
        if len(self._values) >= self._next_look:
            self._drop_expired(now)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def begin(self: Expiring[bool], name: str, now: float, seconds: float) -> bool:
        """True, and remembered for ``seconds``, when ``name`` is not remembered; False when it is."""
        if self.get(name, now):
            return False
        self.put(name, True, now=now, seconds=seconds)
        return True

    def forget(self, name: str) -> None:
        """Remove the value, if there is one."""
        self._values.pop(name, None)

    def _drop_expired(self, now: float) -> None:
        kept = ((name, one) for name, one in self._values.items() if one[0] > now)
        self._values = OrderedDict(kept)
        self._next_look = max(_FEW, 2 * len(self._values))
