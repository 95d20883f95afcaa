"""What the second look at a command says (CON-11)."""

from __future__ import annotations

from typing import NamedTuple

from shared.disruption.records import Command

BUDGET, SCHEDULING, CHURN = "budget", "scheduling", "churn"
"""Causes of a ConsolidationRejected event."""


class Verdict(NamedTuple):
    """``command`` None: nothing of it is left, and why."""

    command: Command | None
    cause: str = ""
    text: str = ""
