"""When the machines of one generation are evaluated again, and what waits for its validation."""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.disruption.methods import Inputs
from shared.disruption.records import Command


@dataclass
class Pending:
    """A command that waits for its validation. ``due``: monotonic seconds."""

    command: Command
    due: float


@dataclass
class Schedule:
    """When one generation is evaluated again. Times are monotonic seconds."""

    next_pass: float = 0.0
    pending: Pending | None = None
    quiet: Inputs | None = None
    """What the pass saw that found nothing to consolidate."""
    quiet_since: float = 0.0
    unseen: frozenset[str] = frozenset()
    """Machines that the last pass had no time for."""
