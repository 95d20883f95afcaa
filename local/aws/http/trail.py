"""CloudTrail's events of launches: one RunInstances event per instance of a fleet, invoked by
``ec2fleet.amazonaws.com`` with minCount = maxCount = 1 (LCH-57). Bounded: the oldest are dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from local.aws.ec2.instances import Instance
from shared.concurrency.clock import rfc3339

EVENT_LIMIT = 10_000
FLEET = "ec2fleet.amazonaws.com"


class Trail:
    """A bounded list of CloudTrail events. Safe to use from every thread."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=limit)

    def launched(self, instances: list[Instance], *, by_fleet: bool) -> None:
        """Record the launch of ``instances``: one event per instance of a fleet, one event in all for a direct call."""
        groups = [[instance] for instance in instances] if by_fleet else [instances]
        with self._lock:
            self._events.extend(_event(group, by_fleet=by_fleet) for group in groups)

    def events(self) -> list[dict[str, Any]]:
        """The events, oldest first."""
        with self._lock:
            return list(self._events)

    def clear(self) -> None:
        """Delete every event."""
        with self._lock:
            self._events.clear()


def _event(instances: list[Instance], *, by_fleet: bool) -> dict[str, Any]:
    first = instances[0]
    number = len(instances)
    identity: dict[str, Any] = {"type": "AssumedRole", "accountId": first.owner_id}
    source = {"sourceIPAddress": FLEET, "userAgent": FLEET} if by_fleet else {}
    return {
        "eventVersion": "1.08",
        "eventTime": rfc3339(first.launched_at),
        "eventSource": "ec2.amazonaws.com",
        "eventName": "RunInstances",
        "awsRegion": first.region,
        "userIdentity": {**identity, "invokedBy": FLEET} if by_fleet else identity,
        **source,
        "requestParameters": {
            "instancesSet": {"items": [{"minCount": number, "maxCount": number}]},
            "instanceType": first.instance_type,
            "availabilityZone": first.zone,
            "subnetId": first.subnet_id,
            "clientToken": first.client_token,
        },
        "responseElements": {
            "instancesSet": {"items": [{"instanceId": one.instance_id} for one in instances]}
        },
    }
