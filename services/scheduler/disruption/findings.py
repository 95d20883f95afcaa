"""What the last passes of disruption found: which machines are candidates, and why the others stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.disruption.records import Candidate, Rejection

MOST_TEXTS = 20
"""Of each method, in ``/status``: the most frequent."""
SURVEY = "candidates"
"""Stands where a method's name would: the survey that comes before all methods."""


@dataclass
class Findings:
    """Overwritten by every pass. Read for ``/status`` and ``/explain``."""

    surveyed: tuple[Rejection, ...] = ()
    """Machines that are no candidates, as of the last survey."""
    candidates: tuple[Candidate, ...] = ()
    """Of the last survey, both generations."""
    by_method: dict[tuple[str, str], tuple[Rejection, ...]] = field(default_factory=dict)
    """(method, generation of API) -> why machines stayed, of its last pass."""
    allowed: dict[tuple[str, str], int] = field(default_factory=dict)
    """(pool key, reason) -> how many more machines the budgets allowed."""

    def stay(self) -> dict[str, dict[str, int]]:
        """Method -> why machines stay, and how many: the most frequent texts."""
        texts = {SURVEY: Counter(rejection.text for rejection in self.surveyed)}
        for (method, _), found in self.by_method.items():
            texts.setdefault(method, Counter()).update(rejection.text for rejection in found)
        return {method: dict(counts.most_common(MOST_TEXTS)) for method, counts in texts.items()}

    def about(self, machine_key: str) -> Iterator[tuple[str, Rejection]]:
        """(method, why it stays) of one machine."""
        for rejection in self.surveyed:
            if rejection.machine_key == machine_key:
                yield SURVEY, rejection
        for (method, _), rejections in sorted(self.by_method.items()):
            for rejection in rejections:
                if rejection.machine_key == machine_key:
                    yield method, rejection

    def exhausted(self, pool_key: str) -> list[str]:
        """Reasons for which the pool's budgets allowed nothing."""
        return [r for (key, r), left in self.allowed.items() if key == pool_key and left == 0]
