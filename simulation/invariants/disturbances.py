"""What may delay work: faults, and starts and ends of processes. An invariant that allows for a delay asks whether there
was a cause for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.trace import Event

WARM_UP_SECONDS = 60.0
"""After this everything runs that starts with the world."""
FIRST_STARTS_SECONDS = 5.0
"""The first starts of the processes disturb nobody."""
CALM_SECONDS = 300.0
"""Without a fault and without a start of a process for so long, nothing excuses a delay."""
NOTICES = ("two minutes", "rebalance", "health event")
"""Words of the faults that are announcements and disturb nobody."""
API_FAULTS = frozenset(
    {
        "pause", "cut", "partition", "half-open", "latency", "slow-reader", "api-down", "api-refusals",
        "etcd-rollback",
    }
)  # fmt: skip
"""Kinds of faults that may hold up a request to the API server."""
LONGEST_FAULT_SECONDS = 90.0
"""The longest of these."""


@dataclass
class Disturbances:
    """When something happened that may delay work. Shared by the invariants of a run."""

    at: float = WARM_UP_SECONDS - CALM_SECONDS
    """Of the last disturbance."""
    notice_at: float = -inf
    """Of the last disturbance that is no announcement of EC2."""
    api_at: float = -inf
    """Of the last disturbance that may hold up a request to the API server."""

    def note(self, event: Event) -> None:
        """Take note of a fault or of the start or end of a process."""
        if event.kind not in ("fault", "process") or event.at < FIRST_STARTS_SECONDS:
            return
        self.at = event.at
        if not any(words in str(event.fields.get("what")) for words in NOTICES):
            self.notice_at = event.at
        if event.kind == "fault" and event.fields.get("fault", "") in {*API_FAULTS, ""}:
            self.api_at = event.at

    def is_calm(self, at: float) -> bool:
        """Whether nothing excuses a delay."""
        return at - self.at >= CALM_SECONDS

    def is_api_prompt(self, at: float, seconds: float) -> bool:
        """Whether a request to the API server that began within the last ``seconds`` was not held up."""
        return at - self.api_at >= LONGEST_FAULT_SECONDS + seconds
