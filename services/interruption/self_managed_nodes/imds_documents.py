"""Documents of the instance metadata service -> notices: pure (INT-40, INT-41).

What may go wrong: a document of another form. It raises BadMessage, which the caller logs once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

from services.interruption.notices.notice import IMDS, NOTICE_SECONDS, Notice, NoticeKind, held_by
from shared.concurrency.clock import parse_rfc3339
from shared.domain.machines.machine import Machine
from shared.redis.bus import BadMessage

SPOT_ACTION = "meta-data/spot/instance-action"
REBALANCE_AT = "meta-data/events/recommendations/rebalance"
SCHEDULED_EVENTS = "meta-data/events/maintenance/scheduled"
LIFECYCLE_STATE = "meta-data/autoscaling/target-lifecycle-state"
TERMINATED_STATE = "Terminated"
"""Other states are InService, Standby, Detached and the states of a warm pool."""
_TIME = "%d %b %Y %H:%M:%S GMT"
MAINTENANCE_ID = "maintenance/"
LONGEST_EVENT = 300
LONGEST_IN_ID = 60
"""The id goes into messages, which take 128 characters of it."""


def spot_notice(text: str, instance: str, *, now: float) -> Notice:
    """From ``spot/instance-action``, which says when the instance ends, not when that was announced.

    Raises BadMessage.
    """
    end = _stamp(_object(text).get("time"), "time")
    announced_at = min(now, end - NOTICE_SECONDS)
    return Notice(
        f"spot/{instance}/{int(end)}", NoticeKind.SPOT, (instance,), announced_at, end, now, IMDS
    )


def rebalance_notice(text: str, instance: str, *, now: float) -> Notice:
    """From ``events/recommendations/rebalance``. Raises BadMessage."""
    at = _stamp(_object(text).get("noticeTime"), "noticeTime")
    return Notice(
        f"rebalance/{instance}/{int(at)}", NoticeKind.REBALANCE, (instance,), at, None, now, IMDS
    )


def lifecycle_notice(text: str, instance: str, *, now: float) -> Notice | None:
    """From ``autoscaling/target-lifecycle-state``, which names neither hook nor time. None: it goes on running."""
    if text.strip() != TERMINATED_STATE:
        return None
    return Notice(f"lifecycle/{instance}", NoticeKind.LIFECYCLE, (instance,), now, None, now, IMDS)


def scheduled_notices(text: str, instance: str, *, now: float) -> list[Notice]:
    """From ``events/maintenance/scheduled``: the events that will happen, without the time of their announcement.

    Raises BadMessage.
    """
    found = _read(text)
    if not isinstance(found, list):
        raise BadMessage("a list of scheduled events is expected")
    events = [one for one in found if isinstance(one, dict) and one.get("State") == "active"]
    return [_scheduled(one, instance, now) for one in events]


def _scheduled(event: dict[str, Any], instance: str, now: float) -> Notice:
    name = "".join(str(event.get("EventId") or "").split())[:LONGEST_EVENT]
    try:
        start = datetime.strptime(str(event.get("NotBefore")), _TIME).replace(tzinfo=UTC)
    except ValueError as error:
        raise BadMessage(f"NotBefore of {name or 'an event'}: {error}") from error
    at = start.timestamp()
    identity = f"{MAINTENANCE_ID}{instance}/{name[:LONGEST_IN_ID]}/{int(at)}"
    return Notice(identity, NoticeKind.SCHEDULED, (instance,), None, at, now, IMDS, name)


def called_off(
    waiting: Iterable[tuple[str, Machine]], scheduled: Iterable[Notice], *, now: float
) -> list[Notice]:
    """Notices that events are over: those that the metadata announced earlier and do not list now."""
    listed = {notice.event for notice in scheduled}
    found = []
    for instance, machine in waiting:
        held = held_by(machine)
        if held is not None and held.source == IMDS and held.event not in listed:
            identity = f"over/{instance}/{held.event[:LONGEST_IN_ID]}"
            found.append(
                Notice(
                    identity,
                    NoticeKind.SCHEDULED_OVER,
                    (instance,),
                    now,
                    None,
                    now,
                    IMDS,
                    held.event,
                )
            )
    return found


def _read(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"not JSON: {error}") from error


def _object(text: str) -> dict[str, Any]:
    found = _read(text)
    if not isinstance(found, dict):
        raise BadMessage("a JSON object is expected")
    return found


def _stamp(written: object, field: str) -> float:
    try:
        return parse_rfc3339(str(written))
    except (ValueError, OverflowError) as error:
        raise BadMessage(f"{field}: a time is expected: {error}") from error
