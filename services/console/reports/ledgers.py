"""What the scheduler said last about its ledgers, and when it is the time for another question. Pure.

Each answer costs the scheduler plans of all pods, or the reading of a day of records, in a process of its own: so it is
asked only while somebody looks at the ledgers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

PATHS = {
    "constraints": "/explain/ledgers/constraints",
    "regret": "/explain/ledgers/regret?hours=24",
}
"""Ledger -> where the scheduler answers."""
KEPT_SECONDS = 300.0
"""An answer is not older while somebody looks."""
RETRY_SECONDS = 30.0
"""After a question that was not answered."""
WANTED_SECONDS = 30.0
"""Whoever looks at the ledgers asks for them more often than this."""


@dataclass
class Ledger:
    """``answer`` is the last good one, also while ``problem`` says why there is no newer one."""

    answer: Mapping[str, Any] | None = None
    problem: str = ""
    next_at: float = -inf

    def take(self, answer: Mapping[str, Any] | None, problem: str, now: float) -> None:
        """An answer, or why there is none."""
        self.problem = problem
        self.next_at = now + (RETRY_SECONDS if answer is None else KEPT_SECONDS)
        if answer is not None:
            self.answer = answer


@dataclass
class Ledgers:
    """All of them. Times are monotonic seconds."""

    kept: Mapping[str, Ledger] = field(default_factory=lambda: {name: Ledger() for name in PATHS})
    _wanted_at: float = -inf

    def due(self, now: float) -> list[str]:
        """Those to ask about."""
        if now - self._wanted_at > WANTED_SECONDS:
            return []
        return [name for name, one in self.kept.items() if now >= one.next_at]

    def shown(self, now: float) -> dict[str, Any]:
        """For the page, which looks at them with this."""
        self._wanted_at = now
        problems = {name: one.problem for name, one in self.kept.items() if one.problem}
        return {**{name: one.answer for name, one in self.kept.items()}, "problems": problems}
