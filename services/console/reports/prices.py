"""What the latest decisions would have cost by each packing policy, as far as the scheduler was asked. Pure."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_KNOWN = 200
MOST_ASKED = 10
"""Only the newest decisions are asked for: the scheduler does not keep the inputs of older ones."""
MOST_TRIES = 3
"""The scheduler may be busy with another question."""


@dataclass
class Prices:
    """By row id of ``Decisions.documents``."""

    _known: OrderedDict[str, Mapping[str, Any]] = field(default_factory=OrderedDict)
    _tries: Counter[str] = field(default_factory=Counter)

    def next(self, decisions: Iterable[Mapping[str, Any]]) -> str | None:
        """The newest decision whose prices are not known. ``decisions``: newest first."""
        comparable = [one["id"] for one in decisions if one.get("comparable")]
        newest = comparable[:MOST_ASKED]
        self._tries = Counter({one: self._tries[one] for one in newest})
        unknown = (one for one in newest if one not in self._known)
        return next((one for one in unknown if self._tries[one] < MOST_TRIES), None)

    def take(self, row_id: str, policies: Mapping[str, Any]) -> None:
        """``policies``: name -> cost in US dollars an hour and number of machines; empty: no answer."""
        if not policies:
            self._tries[row_id] += 1
            return
        self._known[row_id] = policies
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def of(self, row_id: str) -> Mapping[str, Any]:
        """Empty while it is not known."""
        return self._known.get(row_id, {})
