"""What is said of each pending pod: why the last plan has no place for it, and the smallest change that would place it.

The reasons stand in the scheduler's status. A change costs the scheduler a plan, so it is asked for once for all pods
of one controller that wait for the same reason. Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.console.picture.rows import PodRow, Words

MOST_CHARACTERS = 400
"""Of one reason in the picture; the details of a pod have all of it."""
MOST_KNOWN = 200
AGAIN_SECONDS = 600.0
"""After so long the same question is asked again: pools change."""
Cause = tuple[str, str, str]
"""(namespace, controller or requests of the pod, why it waits)."""


@dataclass
class Advice:
    """``verdicts``: pod -> why it waits, of the scheduler's last plan."""

    verdicts: Mapping[str, str] = field(default_factory=dict)
    _changes: OrderedDict[Cause, tuple[float, str]] = field(default_factory=OrderedDict)
    """Cause -> (when it was asked for in seconds since the epoch, the change in words: empty when there is none)."""

    def next(self, pending: Iterable[PodRow], now: float) -> PodRow | None:
        """The oldest pending pod whose change is not known; None when there is nothing to ask."""
        for row in sorted(pending, key=lambda one: (one.since, one.id)):
            cause = self._cause(row)
            if cause is not None and not self._is_known(cause, now):
                return row
        return None

    def take(self, row: PodRow, change: str, now: float) -> None:
        """What the scheduler answered about this pod."""
        cause = self._cause(row)
        if cause is None:
            return
        self._changes[cause] = (now, change)
        self._changes.move_to_end(cause)
        while len(self._changes) > MOST_KNOWN:
            self._changes.popitem(last=False)

    def words(self, pending: Iterable[PodRow]) -> dict[str, Words]:
        """Pod -> what the picture says of it."""
        found = {}
        for row in pending:
            if (cause := self._cause(row)) is not None:
                change = self._changes.get(cause, (0.0, ""))[1]
                found[row.id] = Words(shortened(cause[2]), shortened(change))
        return found

    def _cause(self, row: PodRow) -> Cause | None:
        """None for a pod that the last plan could place, or did not see."""
        verdict = self.verdicts.get(row.id)
        if not verdict or row.state != "pending":
            return None
        return row.id.partition("/")[0], row.owner or f"{row.cpu} {row.memory}", verdict

    def _is_known(self, cause: Cause, now: float) -> bool:
        known = self._changes.get(cause)
        return known is not None and now - known[0] < AGAIN_SECONDS


def shortened(text: str) -> str:
    """At most ``MOST_CHARACTERS`` of a text. The end is kept: it has the cause, after what was looked for."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"
