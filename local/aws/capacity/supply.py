"""The number of instances that one pool can provide now, and the error of its tightest limit.

Five limits apply to a launch: stated capacity, the account's vCPU quota, free addresses of the subnet, the room of a
capacity reservation, and that of a spread placement group. Read under the inventory's lock.
"""

from __future__ import annotations

from dataclasses import dataclass

from local.aws.capacity.placement import Groups, find_group, spread_room
from local.aws.capacity.reservations import Reservations
from local.aws.capacity.stated import ICE, NO_ADDRESSES, Capacity, Quotas, message
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
    placement_groups: Groups

    def bound(self, spec: LaunchSpecification, vcpus: int) -> Bound:
        """The tightest limit; of equal limits the first one. Raises RequestRefused."""
        bounds = (
            self._market(spec),
            self._quota(spec.lifecycle, vcpus),
            Bound(int(spec.subnet.available_ip_address_count), NO_ADDRESSES),
            self._spread(spec),
        )
        return min(bounds, key=lambda bound: bound.left)

    def error(self, spec: LaunchSpecification, vcpus: int) -> tuple[str, str]:
        """(code, message) for a request above the supply."""
        code = self.bound(spec, vcpus).code
        return code, message(code, pool_key(spec))

    def use(self, spec: LaunchSpecification, number: int) -> None:
        """Take ``number`` from the stated capacity; reserved capacity is not counted there."""
        if not spec.reservation_id:
            self.capacity.use(pool_key(spec), number, spec.placement_group[0])

    def left(self, spec: LaunchSpecification) -> int:
        """The stated capacity that is left for such launches."""
        return self.capacity.left(pool_key(spec), spec.placement_group[0])

    def _market(self, spec: LaunchSpecification) -> Bound:
        if spec.reservation_id:
            reservation = self.reservations.find(spec.reservation_id)
            left = self.reservations.left(reservation, self.clock.now())
            fits = (reservation.instance_type, reservation.zone) == (spec.instance_type, spec.zone)
            return Bound(left if fits else 0, RESERVATION_FULL)
        code = self.capacity.code(pool_key(spec), spec.placement_group[0])
        return Bound(self.left(spec), code)

    def _spread(self, spec: LaunchSpecification) -> Bound:
        group = find_group(self.placement_groups, spec.region, spec.placement_group)
        if group is None or group["Strategy"] != "spread":
            return Bound(UNLIMITED, ICE)
        return Bound(spread_room(group["GroupId"], spec.zone, self.inventory.all()), ICE)

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
