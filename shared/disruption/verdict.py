"""The result of validating a command (CON-11)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from shared.disruption.records import Command


class Cause(StrEnum):
    """Causes of a ConsolidationRejected event."""

    BUDGET = "budget"
    SCHEDULING = "scheduling"
    CHURN = "churn"


BUDGET, SCHEDULING, CHURN = Cause


class Verdict(NamedTuple):
    """The valid part of the command; None: it is rejected, with cause and text."""

    command: Command | None
    cause: Cause | None = None
    text: str = ""
