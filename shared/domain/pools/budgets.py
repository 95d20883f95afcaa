"""Disruption budgets: how many more machines of a pool may be disrupted now, for a reason (NP-10, NP-11, DIS-22..24).

What cannot be read allows nothing: a typing error in a schedule must not open the gate that the schedule was to close.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from shared.domain.pools.nodepools import Budget
from shared.errors import InvalidObject

UNLIMITED = 2**31 - 1
"""What is allowed while no budget applies."""

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
NODES_PATTERN = r"^((100|[0-9]{1,2})%|[0-9]+)$"
LONGEST_NODES = 10
_VALUE = r"([0-9]{1,2}|[A-Za-z]{3})"
_PART = rf"([*?]|{_VALUE}(-{_VALUE})?)(/[0-9]{{1,2}})?"
_FIELD = rf"{_PART}(,{_PART})*"
SCHEDULE_PATTERN = (
    rf"^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|{_FIELD}( +{_FIELD}){{4}})$"
)
"""Five fields of cron, or a macro. Cron libraries know more, which Kubernetes' own schedules do not."""
LONGEST_SCHEDULE = 256
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def allowed_disruptions(
    budgets: Iterable[Budget], reason: str, *, total: int, consuming: int, now: float
) -> int:
    """DIS-22..24: how many more of a pool's machines may be disrupted for ``reason``.

    UNLIMITED when no budget applies. ``total`` are the machines that count, ``consuming`` those of them that are
    disrupted already; ``now`` is in seconds since the epoch.
    """
    limits = [
        _limit(budget, total, now)
        for budget in budgets
        if not budget.reasons or reason in budget.reasons
    ]
    least = min(limits, default=UNLIMITED)
    return UNLIMITED if least == UNLIMITED else max(0, least - consuming)


def _limit(budget: Budget, total: int, now: float) -> int:
    """What one budget allows; UNLIMITED while it is not active."""
    try:
        return budget_size(budget.nodes, total) if is_active(budget, now) else UNLIMITED
    except InvalidObject:
        return 0


def budget_size(nodes: str, total: int) -> int:
    """DIS-22: ``nodes`` of ``total`` machines; a percentage rounds up. Raises InvalidObject."""
    if len(nodes) > LONGEST_NODES or re.fullmatch(NODES_PATTERN, nodes) is None:
        raise InvalidObject(
            'must be a count such as "5" or a percentage such as "10%"', field="nodes"
        )
    number = int(nodes.removesuffix("%"))
    return -(-total * number // 100) if nodes.endswith("%") else min(number, UNLIMITED)


def is_active(budget: Budget, now: float) -> bool:
    """DIS-23: always without a schedule; else when the schedule came up in (now - duration, now], UTC.

    Raises InvalidObject for a schedule that is none, and for half a window (NP-11).
    """
    if not budget.schedule and budget.duration_seconds is None:
        return True
    if budget.duration_seconds is None:
        raise InvalidObject("needs a duration beside it", field="schedule")
    # Windows that began before the epoch have seen every schedule come up.
    since = _EPOCH + timedelta(seconds=max(0.0, now - budget.duration_seconds))
    return next(_occurrences(budget.schedule, since)) <= _EPOCH + timedelta(seconds=now)


def schedule_fault(schedule: str) -> str:
    """What is wrong with a schedule, for people; "" when it can be used."""
    try:
        _occurrences(schedule, _EPOCH)
    except InvalidObject as error:
        return error.message.removeprefix(f"{error.field}: ")
    return ""


def _occurrences(schedule: str, after: datetime) -> CronSim:
    """When ``schedule`` comes up after ``after``; never ends. Raises InvalidObject."""
    if len(schedule) > LONGEST_SCHEDULE or re.fullmatch(SCHEDULE_PATTERN, schedule) is None:
        shown = repr(schedule[:40])
        message = f'{shown} is not a schedule of five fields such as "0 9 * * mon-fri", nor one such as @daily'
        raise InvalidObject(message, field="schedule")
    try:
        return CronSim(MACROS.get(schedule, schedule).replace("?", "*"), after)
    except CronSimError as error:
        message = f"{schedule[:40]!r} is not a schedule: {str(error).lower()}"
        raise InvalidObject(message, field="schedule") from error
