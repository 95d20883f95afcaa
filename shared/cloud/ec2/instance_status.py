"""EC2's own opinion of its instances: status checks that failed and events that are scheduled (INT-30).

Three listings, each with a filter of its own, because EC2 joins the filters of one call by AND. What may go wrong:
EC2 keeps an event for a week after it is over, with ``[Completed]`` or ``[Canceled]`` before its description; acting
on such a one would take a healthy machine away.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from shared.cloud.client.calls import Json, ServiceCalls

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


class Ailment(msgspec.Struct, frozen=True):
    """One thing that is wrong with one instance.

    ``since``: since when the check fails, seconds since the epoch, None when EC2 does not say. ``due``: when a
    scheduled event begins; None for a failed check.
    """

    instance: str
    category: str
    since: float | None = None
    due: float | None = None


class InstanceStatuses:
    """DescribeInstanceStatus of the whole account; whose instances these are is the caller's to know."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls

    async def ailments(self) -> tuple[Ailment, ...]:
        """All there are, one per instance and category. Raises Unauthorized without the permission."""
        found: list[Ailment] = []
        for one in FILTERS:
            pages = await self._calls.pages(
                "describe_instance_status",
                "InstanceStatuses",
                each=ailments_of,
                Filters=[one],
                MaxResults=1000,
            )
            found += [ailment for several in pages for ailment in several]
        return distinct(found)


def ailments_of(item: Json) -> list[Ailment]:
    """What one entry of DescribeInstanceStatus complains of; EBS status is left out (INT-30)."""
    instance = str(item.get("InstanceId") or "")
    if not instance:
        return []
    checks = ((INSTANCE_STATUS, "InstanceStatus"), (SYSTEM_STATUS, "SystemStatus"))
    found = [
        Ailment(instance, category, since=_seconds(detail.get("ImpairedSince")))
        for category, field in checks
        for detail in (item.get(field) or {}).get("Details") or ()
        if detail.get("Status") == FAILED
    ]
    found += [
        Ailment(instance, EVENT_STATUS, due=_seconds(event.get("NotBefore")))
        for event in item.get("Events") or ()
        if event.get("Code") in EVENT_CODES
        and not str(event.get("Description") or "").startswith(_OVER)
    ]
    return found


def distinct(ailments: Iterable[Ailment]) -> tuple[Ailment, ...]:
    """One per instance and category: the one that counts longest or comes first."""
    kept: dict[tuple[str, str], Ailment] = {}
    for ailment in ailments:
        name = (ailment.instance, ailment.category)
        if name not in kept or _urgency(ailment) < _urgency(kept[name]):
            kept[name] = ailment
    return tuple(kept.values())


def _urgency(ailment: Ailment) -> float:
    known = [at for at in (ailment.since, ailment.due) if at is not None]
    return min(known, default=float("inf"))


def _seconds(stamp: object) -> float | None:
    return stamp.timestamp() if isinstance(stamp, datetime) else None
