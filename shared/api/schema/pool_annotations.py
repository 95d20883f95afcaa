"""Schemas of the annotations of pools that hold YAML: what a pool keeps, and when it is open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.scalars import Quantity, worded
from shared.api.schema.v1.node_pool import LARGEST_COUNT, WINDOW_PATTERN, check_window
from shared.domain.pools.budgets import LONGEST_SCHEDULE

MOST_ENTRIES = 50
PERCENT_PATTERN = r"^(100|[1-9]?[0-9])%$"


class Timed(ApiModel):
    """When the entry holds, by the grammar of budgets."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("schedule and duration must be set together", check=check_window),
    )

    schedule: Annotated[str, Field(max_length=LONGEST_SCHEDULE)] | None = None
    """When it begins: a cron expression of five fields or a macro such as @daily, in UTC."""
    duration: Annotated[str, *worded(WINDOW_PATTERN, "8h or 1h30m")] | None = None
    """How long it lasts each time, in hours and minutes, such as 1h30m."""


class OpenHours(Timed):
    """One window in which a pool is open."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *Timed.RULES,
        Rule(
            "needs schedule and duration",
            check=lambda raw: (
                [] if "schedule" in raw or "duration" in raw else [(("schedule",), "is required")]
            ),
        ),
    )


def _check_amounts(raw: Json, names: tuple[str, ...]) -> Iterable[tuple[Path, str]]:
    if not any(name in raw for name in names):
        yield (), f"keeps nothing; set one of {', '.join(names)}"


class MinimumEntry(Timed):
    """What the pool's machines have together at least."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *Timed.RULES,
        Rule("keeps something", check=lambda raw: _check_amounts(raw, ("nodes", "cpu", "memory"))),
    )

    nodes: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] | None = None
    cpu: Quantity | None = None
    memory: Quantity | None = None


class HeadroomEntry(Timed):
    """What is free for pods to come on the pool's machines together."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *Timed.RULES,
        Rule(
            "keeps something", check=lambda raw: _check_amounts(raw, ("percent", "cpu", "memory"))
        ),
    )

    percent: Annotated[str, *worded(PERCENT_PATTERN, "20%", None)] | None = None
    """Of what the pool's pods request of cpu and memory."""
    cpu: Quantity | None = None
    memory: Quantity | None = None
