"""EC2's instance status: failed status checks and scheduled events (INT-30).

There are three listings, each with one filter, because EC2 combines the filters of one call with AND. What may go
wrong: EC2 keeps an event for a week after its end, with ``[Completed]`` or ``[Canceled]`` before its description;
acting on it would terminate a healthy machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from shared.cloud.client.calls import AwsService, Json

INSTANCE_STATUS = "instance_status"
SYSTEM_STATUS = "system_status"
EVENT_STATUS = "event_status"
EVENT_CODES = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
FILTERS = (
    {"Name": "instance-status.status", "Values": ["impaired"]},
    {"Name": "system-status.status", "Values": ["impaired"]},
    {"Name": "event.code", "Values": list(EVENT_CODES)},
)
FAILED = "failed"
_OVER = ("[Completed]", "[Canceled]")


class StatusProblem(msgspec.Struct, frozen=True):
    """One failed check or scheduled event of one instance. Times are seconds since the epoch.

    ``since``: the start of the failure, None when EC2 does not report it. ``due``: the start of a scheduled event, None
    for a failed check.
    """

    instance: str
    category: str
    since: float | None = None
    due: float | None = None


class InstanceStatuses(AwsService):
    """DescribeInstanceStatus for the whole account; the caller selects the cluster's own instances."""

    async def problems(self) -> tuple[StatusProblem, ...]:
        """All problems, one per instance and category. Raises Unauthorized without the permission."""
        found: list[StatusProblem] = []
        for one in FILTERS:
            pages = await self._calls.pages(
                "describe_instance_status",
                "InstanceStatuses",
                each=problems_of,
                Filters=[one],
                MaxResults=1000,
            )
            found += [problem for several in pages for problem in several]
        return distinct(found)


def problems_of(item: Json) -> list[StatusProblem]:
    """The problems in one entry of DescribeInstanceStatus; EBS status is ignored (INT-30)."""
    instance = str(item.get("InstanceId") or "")
    if not instance:
        return []
    checks = ((INSTANCE_STATUS, "InstanceStatus"), (SYSTEM_STATUS, "SystemStatus"))
    found = [
        StatusProblem(instance, category, since=_seconds(detail.get("ImpairedSince")))
        for category, field in checks
        for detail in (item.get(field) or {}).get("Details") or ()
        if detail.get("Status") == FAILED
    ]
    found += [
        StatusProblem(instance, EVENT_STATUS, due=_seconds(event.get("NotBefore")))
        for event in item.get("Events") or ()
        if event.get("Code") in EVENT_CODES
        and not str(event.get("Description") or "").startswith(_OVER)
    ]
    return found


def distinct(problems: Iterable[StatusProblem]) -> tuple[StatusProblem, ...]:
    """One problem per instance and category: the earliest."""
    kept: dict[tuple[str, str], StatusProblem] = {}
    for problem in problems:
        name = (problem.instance, problem.category)
        if name not in kept or _urgency(problem) < _urgency(kept[name]):
            kept[name] = problem
    return tuple(kept.values())


def _urgency(problem: StatusProblem) -> float:
    known = [at for at in (problem.since, problem.due) if at is not None]
    return min(known, default=float("inf"))


def _seconds(stamp: object) -> float | None:
    return stamp.timestamp() if isinstance(stamp, datetime) else None
