"""The result of validating a command (CON-11)."""

from __future__ import annotations

from typing import NamedTuple

from shared.disruption.records import Command

BUDGET, SCHEDULING, CHURN = "budget", "scheduling", "churn"
"""Causes of a ConsolidationRejected event."""


class Verdict(NamedTuple):
    """The valid part of the command; None: it is rejected, with cause and text."""

    command: Command | None
    cause: str = ""
    text: str = ""
