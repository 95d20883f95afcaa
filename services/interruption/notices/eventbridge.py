"""EventBridge messages -> notices: pure (INT-05, INT-10..14, INT-41).

Lifecycle hooks may also write to the queue themselves, without EventBridge, directly or over SNS.

A message about something else becomes ``no_op``: it is counted and deleted. One that is not JSON, or is of a known kind
without what that kind must have, raises BadMessage, because a person has to see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import orjson

from services.interruption.notices.notice import NOTICE_SECONDS, HookName, Notice, NoticeKind
from shared.cloud.event_rules import EVENT_RULES, LIFECYCLE
from shared.concurrency.clock import parse_rfc3339
from shared.redis.bus import BadMessage

TRIPLE = ("version", "source", "detail-type")
LONGEST_ID = 100
LONGEST_EVENT = 300
LONGEST_NAME = 255
"""For names of groups and hooks, and tokens."""
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
_STATES = {
    "stopping": NoticeKind.STOPPED,
    "stopped": NoticeKind.STOPPED,
    "shutting-down": NoticeKind.TERMINATED,
    "terminated": NoticeKind.TERMINATED,
}
Json = Mapping[str, Any]
Reading = tuple[NoticeKind, tuple[str, ...], float | None]
"""Kind, instances, deadline."""
Reader = Callable[[Json, float | None], Reading]
_IGNORED: Reading = (NoticeKind.NO_OP, (), None)


def parse(body: str, *, received_at: float = 0.0) -> Notice:
    """Read one SQS body. Raises BadMessage that names what is wrong with it."""
    document = _unpacked(_json(body))
    detail = document.get("detail", {})
    read = _PARSERS.get(tuple(str(document.get(part)) for part in TRIPLE))
    if not isinstance(detail, dict):
        if read or not all(part in document for part in TRIPLE):
            raise BadMessage("not an EventBridge event: an object with a detail object is expected")
        detail = {}  # an event of another kind
    name = str(document.get("id") or "")[:LONGEST_ID] or "unnamed"
    at = _rfc3339(document.get("time"))
    kind, instances, deadline = read(detail, at) if read else _IGNORED
    hook = _hook(detail) if kind == NoticeKind.LIFECYCLE else None
    return Notice(
        name, kind, instances, at, deadline, received_at, event=_event(detail), hook=hook
    )  # fmt: skip


def _json(body: str) -> Json:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadMessage("not an EventBridge event: an object with a detail object is expected")
    return document


def _unpacked(document: Json) -> Json:
    """The document as EventBridge would have written it, out of SNS's wrapping or a hook's own message."""
    if document.get("Type") == "Notification" and isinstance(document.get("Message"), str):
        document = _json(document["Message"])
    if document.get("Service") != "AWS Auto Scaling" or "detail" in document:
        return document
    return {
        "version": "0",
        "id": document.get("RequestId"),
        "source": LIFECYCLE.source,
        "detail-type": LIFECYCLE.detail_type,
        "time": document.get("Time"),
        "detail": document,
    }


def _event(detail: Json) -> str:
    """The ARN of the event, equal in all messages of Health about it, without blanks."""
    return "".join(str(detail.get("eventArn") or "").split())[:LONGEST_EVENT]


def _rfc3339(written: object) -> float | None:
    try:
        return parse_rfc3339(str(written))
    except (ValueError, OverflowError):
        return None


def _rfc1123(written: object) -> float | None:
    """Health writes its times as mail does: ``Wed, 27 Jan 2027 06:00:00 GMT``."""
    try:
        found = parsedate_to_datetime(str(written))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _instance(detail: Json) -> tuple[str]:
    name = detail.get("instance-id")
    if not isinstance(name, str) or not name:
        raise BadMessage("detail.instance-id: the id of an instance is expected")
    return (name,)


def _in_two_minutes(at: float | None) -> float | None:
    return None if at is None else at + NOTICE_SECONDS


def _warning(kind: NoticeKind, detail: Json, at: float | None) -> Reading:
    return kind, _instance(detail), _in_two_minutes(at)


def _rebalance(detail: Json, _at: float | None) -> Reading:
    return NoticeKind.REBALANCE, _instance(detail), None


def _state(detail: Json, at: float | None) -> Reading:
    """A stopping instance has ended for its pods: waiting gains nothing, so the deadline is ``at`` (INT-12)."""
    state = detail.get("state")
    if not isinstance(state, str):
        raise BadMessage("detail.state: the name of a state is expected")
    kind = _STATES.get(state.lower())
    return (kind, _instance(detail), at) if kind else _IGNORED


def _health(detail: Json, _at: float | None) -> Reading:
    """Only EC2's own scheduled changes; a closed one undoes what it announced (INT-13)."""
    if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
        return _IGNORED
    entities = detail.get("affectedEntities") or []
    if not isinstance(entities, list):
        raise BadMessage("detail.affectedEntities: a list is expected")
    values = [entity.get("entityValue") for entity in entities if isinstance(entity, dict)]
    found = tuple(dict.fromkeys(value for value in values if value and isinstance(value, str)))
    if entities and not found:
        raise BadMessage("detail.affectedEntities: no entityValue in it is a text")
    if detail.get("statusCode") == "closed":
        return NoticeKind.SCHEDULED_OVER, found, None
    return NoticeKind.SCHEDULED, found, _rfc1123(detail.get("startTime"))


def _lifecycle(detail: Json, at: float | None) -> Reading:
    """A termination hook waits, for how long is unknown, so it is urgent (INT-41). Tests have no transition."""
    if detail.get("LifecycleTransition") != TERMINATING:
        return _IGNORED
    return NoticeKind.LIFECYCLE, (_text(detail, "EC2InstanceId"),), _in_two_minutes(at)


def _hook(detail: Json) -> HookName:
    token = detail.get("LifecycleActionToken") or ""
    if not isinstance(token, str):
        raise BadMessage("detail.LifecycleActionToken: a text is expected")
    group, name = (_text(detail, key) for key in ("AutoScalingGroupName", "LifecycleHookName"))
    return HookName(group, name, token[:LONGEST_NAME])


def _text(detail: Json, field: str) -> str:
    found = detail.get(field)
    if not isinstance(found, str) or not found or len(found) > LONGEST_NAME:
        raise BadMessage(f"detail.{field}: a name is expected")
    return found


_READERS: dict[str, Reader] = {
    "SpotInterruption": partial(_warning, NoticeKind.SPOT),
    "Rebalance": _rebalance,
    "InstanceStateChange": _state,
    "CapacityReservationInterruption": partial(_warning, NoticeKind.CAPACITY_RESERVATION),
    "HealthEvents": _health,
    LIFECYCLE.name: _lifecycle,
}
"""By the name of the rule that sends the event."""
_PARSERS: dict[tuple[str, ...], Reader] = {
    ("0", rule.source, rule.detail_type): _READERS[rule.name] for rule in EVENT_RULES
}
