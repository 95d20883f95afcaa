"""The latest decisions, which the scheduler lists in its status and the console keeps for longer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_DECISIONS = 200


@dataclass
class Decisions:
    """Decisions by id and time, of every scheduler that was heard, at most ``MOST_DECISIONS``."""

    _known: OrderedDict[tuple[str, float], Mapping[str, Any]] = field(default_factory=OrderedDict)

    def add(self, status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Take over what the scheduler's status lists; returns those that are new, oldest first."""
        fresh = []
        for one in reversed(status.get("decisions") or []):
            key = (str(one.get("id")), float(one.get("at") or 0))
            if key not in self._known:
                self._known[key] = one
                fresh.append(one)
        self._drop_oldest()
        return fresh

    def add_recorded(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Decisions before those that a scheduler's status lists, oldest first."""
        oldest = min((at for _, at in self._known), default=float("inf"))
        older = {(str(one["id"]), float(one["at"])): one for one in rows if one["at"] < oldest}
        self._known = OrderedDict([*older.items(), *self._known.items()])
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self._known) > MOST_DECISIONS:
            self._known.popitem(last=False)

    def documents(self) -> list[dict[str, Any]]:
        """Newest first; of equal times the last added first. Ids are unique: two equal plans have one digest."""
        found = [{**one, "id": f"{id_}@{at}"} for (id_, at), one in reversed(self._known.items())]
        return sorted(found, key=lambda one: -float(one.get("at") or 0))

    def of(self, id_: str) -> Mapping[str, Any] | None:
        """The latest decision with this id of the scheduler; None for one that is not known."""
        return next((one for one in reversed(self._known.values()) if one.get("id") == id_), None)

    def targets(self) -> dict[str, str]:
        """Pod -> the node or machine that the latest plan with this pod placed it on."""
        found: dict[str, str] = {}
        for one in self._known.values():
            found |= one.get("moves") or {}
        return found


def decision_id(row_id: str) -> str:
    """The scheduler's id of a row of ``Decisions.documents``."""
    return row_id.rpartition("@")[0]
