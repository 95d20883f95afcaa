"""On-Demand Capacity Reservations: instances that are paid for and kept free in one zone.

The use of a reservation is counted from the live instances with its id, so a terminated instance frees its place at
once, as on EC2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from local.aws.ec2.filters import filtered
from local.aws.ec2.instances import TERMINATION_STATES, Instance
from local.aws.ec2.refusal import RequestRefused
from local.aws.moto.state import ACCOUNT_ID, new_id

RESERVATION_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation. With ``criteria`` open, matching launches use it automatically; with targeted, only launches that
    name it.
    """

    instance_type: str
    zone: str
    zone_id: str
    count: int
    criteria: Literal["open", "targeted"] = "targeted"
    kind: Literal["default", "capacity-block"] = "default"
    interruptible: bool = False
    ends_at: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    reservation_id: str = field(default_factory=lambda: new_id("cr-"))

    @property
    def market(self) -> str:
        """The market type that a launch into this reservation must name; empty for none."""
        if self.kind == "capacity-block":
            return self.kind
        return "interruptible-capacity-reservation" if self.interruptible else ""

    def active(self, now: float) -> bool:
        """Whether it has not ended (epoch seconds)."""
        return self.ends_at is None or now < self.ends_at


class Reservations:
    """All reservations by id."""

    def __init__(self, instances: Callable[[], Iterable[Instance]]) -> None:
        """``instances`` gives every instance, ended ones included."""
        self._instances = instances
        self._by_id: dict[str, Reservation] = {}

    def add(self, reservation: Reservation) -> None:
        """Add a reservation. Raises OverflowError when there are too many."""
        if len(self._by_id) >= RESERVATION_LIMIT:
            raise OverflowError(f"there are already {RESERVATION_LIMIT} capacity reservations")
        self._by_id[reservation.reservation_id] = reservation

    def find(self, reservation_id: str) -> Reservation:
        """The reservation. Raises RequestRefused for an unknown id."""
        if reservation_id not in self._by_id:
            raise RequestRefused(
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation ID '{reservation_id}' does not exist",
            )
        return self._by_id[reservation_id]

    def left(self, reservation: Reservation, now: float) -> int:
        """Number of instances that the reservation still has room for."""
        if not reservation.active(now):
            return 0
        users = sum(
            one.capacity_reservation_id == reservation.reservation_id
            and one.state not in TERMINATION_STATES
            for one in self._instances()
        )
        return max(0, reservation.count - users)

    def release(self, now: float) -> None:
        """Take the instances of ended reservations out of them: as on EC2 they run on as on-demand instances, and say
        no reservation any more. Instances of a capacity block would end before it."""
        ended = {
            name
            for name, one in self._by_id.items()
            if one.kind == "default" and not one.active(now)
        }
        for instance in self._instances() if ended else ():
            if instance.capacity_reservation_id in ended:
                instance.capacity_reservation_id = ""

    def open_for(self, instance_type: str, zone: str, now: float) -> str:
        """The id of an open reservation with room, which a launch uses automatically; empty for none."""
        for one in self._by_id.values():
            matches = (one.instance_type, one.zone, one.criteria) == (instance_type, zone, "open")
            if matches and self.left(one, now) > 0:
                return one.reservation_id
        return ""

    def described(self, parameters: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
        """Rows of DescribeCapacityReservations. Raises RequestRefused."""
        ids = parameters.get("CapacityReservationIds") or []
        chosen = [self.find(one) for one in ids] if ids else list(self._by_id.values())
        rows = [self._row(one, now) for one in chosen]
        return filtered(rows, parameters.get("Filters") or [], _field)

    def clear(self) -> None:
        """Delete every reservation."""
        self._by_id.clear()

    def _row(self, one: Reservation, now: float) -> dict[str, Any]:
        row: dict[str, Any] = {
            "CapacityReservationId": one.reservation_id,
            "OwnerId": ACCOUNT_ID,
            "InstanceType": one.instance_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": one.zone,
            "AvailabilityZoneId": one.zone_id,
            "Tenancy": "default",
            "TotalInstanceCount": one.count,
            "AvailableInstanceCount": self.left(one, now),
            "EbsOptimized": True,
            "EphemeralStorage": False,
            "State": "active" if one.active(now) else "expired",
            "EndDateType": "unlimited" if one.ends_at is None else "limited",
            "InstanceMatchCriteria": one.criteria,
            "ReservationType": one.kind,
            "Interruptible": one.interruptible,
            "Tags": [{"Key": key, "Value": value} for key, value in one.tags.items()],
        }
        if one.ends_at is not None:
            row["EndDate"] = datetime.fromtimestamp(one.ends_at, UTC)
        return row


_FIELDS = {
    "availability-zone": "AvailabilityZone",
    "end-date-type": "EndDateType",
    "instance-match-criteria": "InstanceMatchCriteria",
    "instance-type": "InstanceType",
    "owner-id": "OwnerId",
    "state": "State",
}
"""Filter name -> field of a row."""


def _field(name: str) -> Callable[[Mapping[str, Any]], Sequence[str]]:
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda row: [tag["Value"] for tag in row["Tags"] if tag["Key"] == key]
    if name == "tag-key":
        return lambda row: [tag["Key"] for tag in row["Tags"]]
    if name not in _FIELDS:
        raise RequestRefused("InvalidParameterValue", f"The filter '{name}' is invalid")
    return lambda row: [str(row[_FIELDS[name]])]
