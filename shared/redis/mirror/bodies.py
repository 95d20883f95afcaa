"""Encoded records of one kind, as the mirror has them, and which of them changed lately.

Who keeps something for each record asks what changed since it asked last, instead of looking at a hundred thousand
records every second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import NoReturn

RECENT = 20_000
"""So many changes are remembered. Who asks later than that looks at all records."""


class Bodies(dict[str, bytes]):
    """Key -> encoded record. Changed by assignment, ``del`` and ``pop`` only: these are counted."""

    def __init__(self, records: Mapping[str, bytes]) -> None:
        super().__init__(records)
        self.count = 0
        """Changes so far."""
        self._recent: deque[str] = deque(maxlen=RECENT)

    def __setitem__(self, key: str, body: bytes) -> None:
        super().__setitem__(key, body)
        self._note(key)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._note(key)

    def pop(self, key: str, default: object = None) -> bytes | None:  # type: ignore[override]
        """Remove a record; None when there is none."""
        self._note(key)
        return super().pop(key, None)

    def _note(self, key: str) -> None:
        self.count += 1
        self._recent.append(key)

    def changed_since(self, count: int) -> list[str] | None:
        """The keys of the changes after the first ``count``, in their order, perhaps several times; None when that is
        longer ago than is remembered."""
        new = self.count - count
        if new > len(self._recent):
            return None
        return list(islice(self._recent, len(self._recent) - new, None))


def _refused(*_: object, **__: object) -> NoReturn:
    raise TypeError("bodies are changed by assignment, del and pop only: these are counted")


for _name in ("__ior__", "clear", "popitem", "setdefault", "update"):
    setattr(Bodies, _name, _refused)
