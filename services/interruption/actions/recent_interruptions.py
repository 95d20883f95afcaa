"""The latest machines that were deleted because of a notice: for ``/status``, the console and the metrics. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.interruption.notices.notice import Notice
from shared.domain.machines.machine import Machine
from shared.metrics.cloud import DEADLINES
from shared.metrics.exposition.text import block, labelled

MOST_INTERRUPTIONS = 100


@dataclass
class RecentInterruptions:
    """Newest last, at most ``MOST_INTERRUPTIONS``."""

    _latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_INTERRUPTIONS))

    def note(self, machine: Machine, notice: Notice, *, now: float) -> None:
        """Times are seconds since the epoch; a notice without a deadline has None."""
        self._latest.append(
            {
                "machine": machine.key,
                "node": machine.node_name,
                "kind": notice.kind.value,
                "since": now,
                "deadline": notice.deadline,
            }
        )

    def documents(self) -> list[dict[str, Any]]:
        """Newest first."""
        return list(reversed(self._latest))

    def deadline_text(self, exists: Callable[[str], bool], *, now: float) -> str:
        """The metric of how much time is left. ``exists``: whether there is still a machine with this key."""
        # By machine: of several notices the latest counts.
        left = {
            one["machine"]: one
            for one in list(self._latest)
            if one["deadline"] is not None and exists(one["machine"])
        }
        rows = (
            (
                labelled(DEADLINES.labels, (one["machine"], one["node"], one["kind"])),
                round(one["deadline"] - now, 1),
            )
            for one in left.values()
        )
        return block(DEADLINES, rows)
