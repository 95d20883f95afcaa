"""The latest machines that were deleted because of a notice, as documents for ``/status`` and the console. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from services.interruption.notices.notice import Notice
from shared.domain.machines.machine import Machine

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
