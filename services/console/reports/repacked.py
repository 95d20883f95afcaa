"""What the scheduler said last about the cost of new machines, and when it is the time for another question. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REPACK_SECONDS = 60.0
"""Between two answers at least: each one costs the scheduler a plan of all pods in a process of its own."""
LEAST_AGE_SECONDS = 5.0
"""A younger bound counts as one of now."""
FIRST_RETRY_SECONDS = 10.0
"""After a failure; doubled with each further one, up to ``REPACK_SECONDS``."""


@dataclass
class Repacked:
    """``answer`` is the last good one, also while ``problem`` says why there is no newer one."""

    answer: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    _number: int = -1
    """The number of the feed when the last good answer was asked for."""
    _answered_at: float = 0.0
    _next_at: float = 0.0
    _failures: int = 0

    def is_due(self, number: int, now: float) -> bool:
        """Whether the cluster changed since the last good answer, and the last question is long enough ago."""
        return now >= self._next_at and (number != self._number or bool(self.problem))

    def take(self, answer: Mapping[str, Any], number: int, now: float) -> None:
        """A good answer about the cluster of ``number``."""
        self.answer, self.problem, self._number, self._failures = answer, "", number, 0
        self._answered_at, self._next_at = now, now + REPACK_SECONDS

    def fail(self, problem: str, now: float) -> None:
        """No answer."""
        self.problem = problem
        wait = FIRST_RETRY_SECONDS * 2 ** min(self._failures, 10)
        self._next_at = now + min(wait, REPACK_SECONDS)
        self._failures += 1

    @property
    def bound(self) -> float | None:
        """US dollars an hour; None when it is not known."""
        return self.answer.get("bound")

    @property
    def policies(self) -> Mapping[str, float]:
        """Packing policy -> what new machines for the pods cost; empty when there were no pods."""
        return (self.answer.get("costs") or {}) if self.answer.get("pods") else {}

    def text(self, number: int, now: float) -> str:
        """What the bound means; empty without one. ``number``: of the feed now. A bound of before a change of the
        cluster says how old it is: beside the cost of now it may look far too low."""
        if self.bound is None:
            return ""
        pods, unplaced = self.answer.get("pods", 0), self.answer.get("unplaced", 0)
        left = f" ({unplaced} of them fit on no new machine and are left out)" if unplaced else ""
        return (
            f"No set of new machines at today's prices holds the {pods} pods that are pending or on managed "
            f"nodes{left} for less; daemon sets are counted.{self._age(number, now)}"
        )

    def _age(self, number: int, now: float) -> str:
        age = now - self._answered_at
        if number == self._number or age < LEAST_AGE_SECONDS:
            return ""
        return f" That was {age:.0f} s ago, and the cluster has changed since."
