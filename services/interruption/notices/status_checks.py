"""Failing status checks of instances -> notices: pure (INT-15, INT-30).

A check that fails for a moment recovers by itself: only after two minutes the instance is given up, and only after two
minutes without a failure it counts as healthy again. A scheduled event is certain and acted on at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.interruption.notices.notice import (
    STATUS_CHECKS,
    Maintenance,
    Notice,
    NoticeKind,
    held_by,
)
from shared.cloud.ec2.instance_status import EVENT_STATUS, StatusProblem
from shared.domain.machines.machine import Machine

IMPAIRED_SECONDS = 120.0
HEALTHY_SECONDS = 120.0
Name = tuple[str, str]
"""(instance, category)."""


def name_of(problem: StatusProblem) -> Name:
    """The name by which a failing check is remembered."""
    return (problem.instance, problem.category)


def first_seen(
    problems: Iterable[StatusProblem], before: Mapping[Name, float], *, now: float
) -> dict[Name, float]:
    """Since when each check fails: as EC2 says, or since it was first seen. What recovered is forgotten."""
    return {
        name_of(one): before.get(name_of(one), now) if one.since is None else one.since
        for one in problems
    }


def serious(
    problems: Iterable[StatusProblem], since: Mapping[Name, float], *, now: float
) -> list[StatusProblem]:
    """The failing checks that are acted on now."""
    return [
        one
        for one in problems
        if one.category == EVENT_STATUS or now - since[name_of(one)] >= IMPAIRED_SECONDS
    ]


def notice_of(problem: StatusProblem, since: float, *, now: float) -> Notice:
    """A notice for a failing check. For a scheduled event ``at`` is None: EC2 does not say when it was announced."""
    scheduled = problem.category == EVENT_STATUS
    stamp = problem.due if scheduled else since
    return Notice(
        id=f"{problem.category}/{problem.instance}/{int(stamp or 0)}",
        kind=NoticeKind(problem.category),
        instances=(problem.instance,),
        at=None if scheduled else since,
        deadline=problem.due if scheduled else now,
        received_at=now,
        source=STATUS_CHECKS,
    )


def called_off(
    waiting: Iterable[tuple[str, Machine]], problems: Iterable[StatusProblem], *, now: float
) -> list[Notice]:
    """Notices that events are over: Machines wait for them because of this source, and EC2 does not list them now."""
    scheduled = {one.instance for one in problems if one.category == EVENT_STATUS}
    return [
        _over(instance, held, now)
        for instance, machine in waiting
        if instance not in scheduled
        and (held := held_by(machine)) is not None
        and held.source == STATUS_CHECKS
    ]


def _over(instance: str, held: Maintenance, now: float) -> Notice:
    name = f"over/{instance}/{int(held.start)}"
    return Notice(name, NoticeKind.SCHEDULED_OVER, (instance,), now, None, now, STATUS_CHECKS)


def passing_since(
    closed: Iterable[str],
    problems: Iterable[StatusProblem],
    before: Mapping[str, float],
    *,
    now: float,
) -> dict[str, float]:
    """Since when each of the ``closed`` instances passes both status checks, as far as EC2 was asked."""
    failing = {one.instance for one in problems if one.category != EVENT_STATUS}
    return {one: before.get(one, now) for one in closed if one not in failing}


def healed(passing: Mapping[str, float], *, now: float) -> list[Notice]:
    """Notices that instances are healthy, once that lasted."""
    return [
        Notice(
            f"healthy/{one}/{int(since)}",
            NoticeKind.HEALED,
            (one,),
            since,
            None,
            now,
            STATUS_CHECKS,
        )
        for one, since in passing.items()
        if now - since >= HEALTHY_SECONDS
    ]
