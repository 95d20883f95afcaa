"""The number of instances that one pool can provide now, and the error of its tightest limit.

Four limits apply to a launch: stated capacity, the account's vCPU quota, free addresses of the subnet, and the room of
a capacity reservation. Read under the inventory's lock.
"""

from __future__ import annotations

from dataclasses import dataclass

from local.aws.capacity.reservations import Reservations
from local.aws.capacity.stated import NO_ADDRESSES, Capacity, Quotas, message
from local.aws.ec2.instances import TERMINATION_STATES, Inventory
from local.aws.ec2.launching import LaunchSpecification
from local.aws.fleet.plan import UNLIMITED, PoolKey
from shared.concurrency.clock import Clock

RESERVATION_FULL = "ReservationCapacityExceeded"


@dataclass(frozen=True, slots=True)
class Bound:
    """``left`` instances fit; a larger request is answered with ``code``."""

    left: int
    code: str


@dataclass(frozen=True, slots=True)
class Supply:
    """The limits of one launch specification at a time."""

    capacity: Capacity
    quotas: Quotas
    reservations: Reservations
    inventory: Inventory
    clock: Clock

    def bound(self, spec: LaunchSpecification, vcpus: int) -> Bound:
        """The tightest limit; of equal limits the first one. Raises RequestRefused."""
        bounds = (
            self._market(spec),
            self._quota(spec.lifecycle, vcpus),
            Bound(int(spec.subnet.available_ip_address_count), NO_ADDRESSES),
        )
        return min(bounds, key=lambda bound: bound.left)

    def error(self, spec: LaunchSpecification, vcpus: int) -> tuple[str, str]:
        """(code, message) for a request above the supply."""
        code = self.bound(spec, vcpus).code
        return code, message(code, pool_key(spec))

    def use(self, spec: LaunchSpecification, number: int) -> None:
        """Take ``number`` from the stated capacity; reserved capacity is not counted there."""
        if not spec.reservation_id:
            self.capacity.use(pool_key(spec), number)

    def _market(self, spec: LaunchSpecification) -> Bound:
        if spec.reservation_id:
            reservation = self.reservations.find(spec.reservation_id)
            left = self.reservations.left(reservation, self.clock.now())
            fits = (reservation.instance_type, reservation.zone) == (spec.instance_type, spec.zone)
            return Bound(left if fits else 0, RESERVATION_FULL)
        key = pool_key(spec)
        return Bound(self.capacity.left(key), self.capacity.code(key))

    def _quota(self, lifecycle: str, vcpus: int) -> Bound:
        limit, code = self.quotas.limit(lifecycle)
        if limit is None:
            return Bound(UNLIMITED, code)
        used = sum(
            one.facts.vcpus
            for one in self.inventory.all()
            if one.lifecycle == lifecycle and one.state not in TERMINATION_STATES
        )
        return Bound(max(0, limit - used) // max(1, vcpus), code)


def pool_key(spec: LaunchSpecification) -> PoolKey:
    """The key of the specification's pool in the stated capacity."""
    return spec.instance_type, spec.zone, spec.lifecycle
