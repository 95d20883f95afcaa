"""What is kept from plan to plan of one process: it stays right while the records from which it was worked out are the
same objects.

Modules hold it in ``Known`` and ``Recent`` and in nothing else, so that ``forget`` finds all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, Generic, TypeVar

SPARE = 1000
"""So many nodes that are gone stay known, beside as many as there are."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Known(dict[Key, Value]):
    """What was worked out of each key, mostly the name of a node. Made once, by a module."""

    def __init__(self) -> None:
        super().__init__()
        _EVERYTHING.append(self)

    def forget_gone(self, nodes: int) -> None:
        """Begin anew when most of it, by node name, is of nodes that are gone. ``nodes``: how many there are."""
        if len(self) > 2 * nodes + SPARE:
            self.clear()


class Recent(Generic[Value]):
    """The values that were added last, newest first. Made once, by a module. Other threads may read it meanwhile."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._values: tuple[Value, ...] = ()
        _EVERYTHING.append(self)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values)

    def add(self, value: Value, *, instead_of: Value | None = None) -> Value:
        """The value. The oldest one goes, or this one."""
        left = (one for one in self._values if one is not instead_of)
        self._values = (value, *left)[: self._most]
        return value

    def clear(self) -> None:
        self._values = ()


_EVERYTHING: list[Known[Any, Any] | Recent[Any]] = []


def forget() -> None:
    """As in a new process: nothing is known."""
    for one in _EVERYTHING:
        one.clear()


def same(before: Sequence[object], now: Sequence[object]) -> bool:
    """Whether both hold the very same objects in the same order."""
    return before is now or (len(before) == len(now) and all(map(is_, before, now)))
