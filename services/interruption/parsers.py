"""EventBridge messages -> interruptions: pure (INT-05, INT-10..14).

Whatever is not understood is ``no_op``: counted, deleted, never a crash. What is not even JSON raises BadMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from shared.bus import BadMessage
from shared.clock import parse_rfc3339

SPOT = "spot_interrupted"
REBALANCE = "rebalance_recommendation"
STOPPED = "instance_stopped"
TERMINATED = "instance_terminated"
SCHEDULED = "scheduled_change"
NO_OP = "no_op"
NOTICE_SECONDS = 120.0
"""EC2 gives two minutes from the notice to the end of a spot instance."""
MOST_INSTANCES = 1000
_STATES = {
    "stopping": STOPPED,
    "stopped": STOPPED,
    "shutting-down": TERMINATED,
    "terminated": TERMINATED,
}
Json = Mapping[str, Any]


class Interruption(msgspec.Struct, frozen=True):
    """One notice. ``deadline`` in seconds since the epoch, when EC2 named one."""

    event: str
    kind: str
    instances: tuple[str, ...] = ()
    deadline: float | None = None


def parse(body: str) -> Interruption:
    """Read one SQS body. Raises BadMessage when it is no EventBridge document."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("detail", {}), dict):
        raise BadMessage("not an EventBridge event: an object with a detail object is expected")
    event = str(document.get("id") or "")[:100] or "unnamed"
    triple = tuple(str(document.get(name)) for name in ("version", "source", "detail-type"))
    read = _PARSERS.get(triple)
    return read(event, document) if read else Interruption(event, NO_OP)


def _instances(detail: Json) -> tuple[str, ...]:
    name = detail.get("instance-id")
    return (name,) if isinstance(name, str) and name else ()


def _spot(event: str, document: Json) -> Interruption:
    try:
        deadline = parse_rfc3339(str(document.get("time"))) + NOTICE_SECONDS
    except ValueError:
        deadline = None
    return Interruption(event, SPOT, _instances(document["detail"]), deadline)


def _rebalance(event: str, document: Json) -> Interruption:
    return Interruption(event, REBALANCE, _instances(document["detail"]))


def _state(event: str, document: Json) -> Interruption:
    state = str(document["detail"].get("state") or "").lower()
    return Interruption(event, _STATES.get(state, NO_OP), _instances(document["detail"]))


def _health(event: str, document: Json) -> Interruption:
    """INT-13: only EC2's own scheduled changes."""
    detail = document["detail"]
    if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
        return Interruption(event, NO_OP)
    entities = detail.get("affectedEntities")
    found = [
        entity["entityValue"]
        for entity in (entities if isinstance(entities, list) else [])
        if isinstance(entity, dict) and isinstance(entity.get("entityValue"), str)
    ]
    return Interruption(event, SCHEDULED, tuple(found[:MOST_INSTANCES]))


_PARSERS: dict[tuple[str, ...], Callable[[str, Json], Interruption]] = {
    ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning"): _spot,
    ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation"): _rebalance,
    ("0", "aws.ec2", "EC2 Instance State-change Notification"): _state,
    ("0", "aws.health", "AWS Health Event"): _health,
}
