"""Disruption budgets: how many more machines of a pool may be disrupted now, for a reason (NP-10, NP-11, DIS-22..24).

An invalid budget allows nothing: a typing error in a schedule must not enable the disruption that it should prevent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from shared.domain.pools.nodepools import Budget
from shared.domain.pools.windows import Scheduled
from shared.errors import InvalidObject

UNLIMITED = 2**31 - 1
"""The number of allowed disruptions while no budget applies."""

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
"""Five cron fields, or a macro: what Kubernetes' schedules support; cron libraries support more."""
_DAYS_OF_MONTH, _DAYS_OF_WEEK = "1-31", "0-6"
LONGEST_SCHEDULE = 256
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def allowed_disruptions(
    budgets: Iterable[Budget], reason: str, *, total: int, consuming: int, now: float
) -> int:
    """DIS-22..24: how many more of a pool's machines may be disrupted for ``reason``.

    UNLIMITED when no budget applies. ``total``: number of machines that count; ``consuming``: how many of these are
    already disrupted; ``now``: seconds since the epoch.
    """
    limits = [
        _limit(budget, total, now)
        for budget in budgets
        if not budget.reasons or reason in budget.reasons
    ]
    least = min(limits, default=UNLIMITED)
    return UNLIMITED if least == UNLIMITED else max(0, least - consuming)


def _limit(budget: Budget, total: int, now: float) -> int:
    """The limit of one budget; UNLIMITED while it is not active, 0 when it is invalid."""
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


def is_active(budget: Scheduled, now: float) -> bool:
    """DIS-23: always without a schedule; else if the schedule occurred in (now - duration, now], UTC.

    Raises InvalidObject for an invalid schedule, and for a schedule without a duration or the reverse (NP-11).
    """
    if not budget.schedule and budget.duration_seconds is None:
        return True
    if budget.duration_seconds is None:
        raise InvalidObject("needs a duration; set both", field="schedule")
    # A window that began before the epoch starts at the epoch, where datetime arithmetic is still valid.
    since = _EPOCH + timedelta(seconds=max(0.0, now - budget.duration_seconds))
    return next(_occurrences(budget.schedule, since)) <= _EPOCH + timedelta(seconds=now)


def boundaries(budget: Budget, now: float) -> tuple[float, ...]:
    """When the budget begins and ends next, in seconds since the epoch; empty for one that always or never applies."""
    try:
        if budget.duration_seconds is None or not budget.schedule:
            return ()
        since = _EPOCH + timedelta(seconds=max(0.0, now - budget.duration_seconds))
        ends = next(_occurrences(budget.schedule, since)).timestamp() + budget.duration_seconds
        begins = next(_occurrences(budget.schedule, _EPOCH + timedelta(seconds=now))).timestamp()
    except (InvalidObject, StopIteration):
        return ()
    return tuple(at for at in (begins, ends) if at > now)


def schedule_fault(schedule: str) -> str:
    """The fault of a schedule, for messages; "" for a valid one."""
    try:
        _occurrences(schedule, _EPOCH)
    except InvalidObject as error:
        return error.fault
    return ""


def _occurrences(schedule: str, after: datetime) -> CronSim:
    """The endless occurrences of ``schedule`` after ``after``. Raises InvalidObject."""
    if len(schedule) > LONGEST_SCHEDULE or re.fullmatch(SCHEDULE_PATTERN, schedule) is None:
        shown = repr(schedule[:40])
        message = f'{shown} is not a schedule of five fields such as "0 9 * * mon-fri", nor one such as @daily'
        raise InvalidObject(message, field="schedule")
    try:
        return CronSim(_as_libraries_read(MACROS.get(schedule, schedule)), after)
    except CronSimError as error:
        message = f"{schedule[:40]!r} is not a schedule: {str(error).lower()}"
        raise InvalidObject(message, field="schedule") from error


def _as_libraries_read(schedule: str) -> str:
    """Five fields with the meaning that they have in Kubernetes. Raises InvalidObject for Sunday as 7.

    Days count if they are of the month or of the week, unless one of the two is every day. For cron libraries each
    ``*/N`` is every day, in Kubernetes only ``*`` and ``*/1`` are.
    """
    *clock, month_days, month, week_days = schedule.replace("?", "*").split()
    if any("7" in part.partition("/")[0].split("-") for part in week_days.split(",")):
        message = f"{schedule[:40]!r} is not a schedule: Sunday is 0 or sun, not 7"
        raise InvalidObject(message, field="schedule")
    days = _days(month_days, _DAYS_OF_MONTH), month, _days(week_days, _DAYS_OF_WEEK)
    return " ".join((*clock, *days))


def _days(field: str, whole: str) -> str:
    """A field of days: ``*`` if one of its parts is every day, else with each ``*/N`` as a range."""
    parts = [part.partition("/") for part in field.split(",")]
    if any(days == "*" and int(step or 1) == 1 for days, _, step in parts):
        return "*"
    return ",".join((whole if days == "*" else days) + slash + step for days, slash, step in parts)
