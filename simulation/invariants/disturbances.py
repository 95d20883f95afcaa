"""What may delay work: faults, and starts and ends of processes.

An invariant that allows for a delay asks here whether there was a cause for it.
"""

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
PROMPT_FAULTS = frozenset(
    {
        "kill", "terminate", "launcher-killed", "terminator-killed", "killed-in-command", "leader-paused",
        "watcher-stopped", "loop-ends", "watcher-cut-off", "watcher-late", "clock-skew", "clock-jump", "rebalance",
        "spot-interruption", "health-event", "notice-and-kill", "never-joins", "notices-lost",
    }
)  # fmt: skip
"""Kinds of faults that hold up no request of a process that plans, launches or ends machines. A leader that was paused
has lost its Lease when it continues, so it writes nothing that it read before."""
LISTS_ARE_LATE = frozenset(
    {"ec2-stale-lists", "ec2-lists-late", "launch-contested", "launch-unseen"}
)
LATE_LISTS_SECONDS = 450.0
"""For how long such a fault may last, and how late a list may be then."""
AWS_FAULTS = frozenset(
    {
        "aws-throttling", "aws-errors", "aws-lost-answer", "aws-denied", *LISTS_ARE_LATE, "ec2-shortage",
        "ec2-partial-fleets", "ec2-instances-die", "ec2-instances-stop", "sqs-repeats", "sqs-broken-message",
        "launch-lost", "launch-stopped",
    }
)  # fmt: skip
"""Kinds of faults that hold up no request to the API server."""
LONGEST_FAULT_SECONDS = 110.0
"""The longest of the others."""

READ_SECONDS = 2.0
"""So long after a service read something from the API server it writes what it decided by that, whatever the mirror
shows: two requests, and the others of the same decision between them."""
SLOW_READ_SECONDS = 120.0
"""The same while requests are held up: each of the two may take its longest time, 60 s."""


@dataclass
class Disturbances:
    """When something happened that may delay work. Shared by the invariants of a run."""

    at: float = WARM_UP_SECONDS - CALM_SECONDS
    """Of the last disturbance."""
    notice_at: float = -inf
    """When the last disturbance ended that is no announcement of EC2."""
    slow_at: float = -inf
    """Of the last fault that may hold up a request."""
    cluster_slow_at: float = -inf
    """Of the last fault that may hold up a request to the API server."""
    late_lists_at: float = -inf
    """Of the last fault that makes EC2's lists late."""

    def note(self, event: Event) -> None:
        """Take note of a fault or of the start or end of a process."""
        if event.kind not in ("fault", "process") or event.at < FIRST_STARTS_SECONDS:
            return
        self.at = event.at
        if not any(words in str(event.fields.get("what")) for words in NOTICES):
            lasted = event.fields.get("seconds") or 0.0
            self.notice_at = max(self.notice_at, event.at + float(lasted))
        kind = event.fields.get("fault")
        if event.kind == "fault" and kind not in PROMPT_FAULTS:
            self.slow_at = event.at
            if kind not in AWS_FAULTS:
                self.cluster_slow_at = event.at
        if kind in LISTS_ARE_LATE:
            self.late_lists_at = event.at

    def is_calm(self, at: float) -> bool:
        """Whether nothing excuses a delay."""
        return at - self.at >= CALM_SECONDS

    def read_seconds(self, at: float) -> float:
        """The longest time from reading something from the API server to the write that was decided by it."""
        return self._seconds(self.slow_at, at)

    def cluster_read_seconds(self, at: float) -> float:
        """The same for a decision that waits for nothing but the API server."""
        return self._seconds(self.cluster_slow_at, at)

    def _seconds(self, slow_at: float, at: float) -> float:
        prompt = at - slow_at >= LONGEST_FAULT_SECONDS + SLOW_READ_SECONDS
        return READ_SECONDS if prompt else SLOW_READ_SECONDS

    def lists_are_late(self, at: float) -> bool:
        """Whether EC2's lists may show an instance in a state that it left."""
        return at - self.late_lists_at < LATE_LISTS_SECONDS
