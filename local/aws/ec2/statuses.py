"""Status checks and scheduled events of instances, and DescribeInstanceStatus over them (INT-30).

An instance without a statement is healthy. The number of statements is bounded: the oldest is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from local.aws.ec2.filters import INSTANCE_FILTERS
from local.aws.ec2.instances import STATE_CODES, Instance
from local.aws.ec2.refusal import RequestRefused
from local.aws.interruptions.notices import Maintenance

STATEMENT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Status:
    """``since``: epoch seconds at which the impaired checks began to fail."""

    instance: str = "ok"
    system: str = "ok"
    ebs: str = "ok"
    since: float | None = None
    events: tuple[Maintenance, ...] = ()


HEALTHY = Status()


class Statuses:
    """Statements by instance id; changed and read under the inventory's lock."""

    def __init__(self) -> None:
        self._by_instance: dict[str, Status] = {}

    def of(self, instance_id: str) -> Status:
        """The status; healthy without a statement."""
        return self._by_instance.get(instance_id, HEALTHY)

    def state(self, instance_id: str, status: Status) -> None:
        """Set the status from now on."""
        self._by_instance.pop(instance_id, None)
        if status == HEALTHY:
            return
        if len(self._by_instance) >= STATEMENT_LIMIT:
            del self._by_instance[next(iter(self._by_instance))]
        self._by_instance[instance_id] = status

    def forget(self, instance_id: str) -> None:
        """Remove the statement of a deleted instance."""
        self._by_instance.pop(instance_id, None)

    def clear(self) -> None:
        """Make every instance healthy."""
        self._by_instance.clear()


Row = tuple[Instance, Status]

STATUS_FILTERS: Mapping[str, Callable[[Row], Sequence[str]]] = {
    "attached-ebs-status.status": lambda row: (_shown(row, row[1].ebs),),
    "event.code": lambda row: tuple(event.code for event in row[1].events),
    "event.description": lambda row: tuple(event.description for event in row[1].events),
    "event.instance-event-id": lambda row: tuple(event.event_id for event in row[1].events),
    "instance-status.reachability": lambda row: (_reachability(row[1].instance),),
    "instance-status.status": lambda row: (_shown(row, row[1].instance),),
    "system-status.reachability": lambda row: (_reachability(row[1].system),),
    "system-status.status": lambda row: (_shown(row, row[1].system),),
}


def status_values(name: str) -> Callable[[Row], Sequence[str]]:
    """The values of a row that the filter compares. Raises RequestRefused for an unknown filter."""
    if name in STATUS_FILTERS:
        return STATUS_FILTERS[name]
    if name in INSTANCE_FILTERS:
        of_instance = INSTANCE_FILTERS[name]
        return lambda row: of_instance(row[0])
    raise RequestRefused("InvalidParameterValue", f"The filter '{name}' is invalid")


def described(row: Row) -> dict[str, Any]:
    """One entry of DescribeInstanceStatus."""
    instance, status = row
    return {
        "InstanceId": instance.instance_id,
        "AvailabilityZone": instance.zone,
        "InstanceState": {"Code": STATE_CODES[instance.state], "Name": instance.state},
        "InstanceStatus": _summary(row, status.instance),
        "SystemStatus": _summary(row, status.system),
        "AttachedEbsStatus": _summary(row, status.ebs),
        "Events": [_event(event) for event in status.events],
    }


def _summary(row: Row, check: str) -> dict[str, Any]:
    shown = _shown(row, check)
    if shown == "not-applicable":
        return {"Status": shown}
    detail: dict[str, Any] = {"Name": "reachability", "Status": _reachability(check)}
    since = row[1].since
    if check == "impaired" and since is not None:
        detail["ImpairedSince"] = datetime.fromtimestamp(since, UTC)
    return {"Status": shown, "Details": [detail]}


def _shown(row: Row, check: str) -> str:
    return check if row[0].state == "running" else "not-applicable"


def _reachability(check: str) -> str:
    return {"ok": "passed", "impaired": "failed"}.get(check, check)


def _event(event: Maintenance) -> dict[str, Any]:
    return {
        "InstanceEventId": event.event_id,
        "Code": event.code,
        "Description": event.description,
        "NotBefore": datetime.fromtimestamp(event.not_before, UTC),
        "NotAfter": datetime.fromtimestamp(event.not_after, UTC),
    }
