"""Which subnet of a zone a launch uses: the one with most free addresses (LCH-11, LCH-12).

EC2 counts free addresses when it is asked, once a minute; a burst of launches would put all machines of a minute into
one subnet. So each launch reserves what its machine's pods may take, in every subnet that it offers to EC2, and settles
to the one it got. A reservation ends after five minutes, when EC2's own count has it.

In an IPv6 cluster pods take no IPv4 address and EC2 counts no others: only launches in flight tell subnets apart there.

What may go wrong: a reservation that EC2 counts already is counted twice for some minutes. It changes the order of
subnets only: none is ever left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.launcher.launch.fleet import LaunchRecord, overrides_of
from shared.cloud.ec2.records import FleetInstance, Subnet
from shared.concurrency.clock import Clock
from shared.domain.resources import PODS
from shared.redis.mirror.catalogue.offerings import CatalogueSource

RESERVATION_SECONDS = 300.0
"""How long a reservation counts, and how long a full subnet comes last (LCH-12, LCH-90)."""
MOST_RESERVATIONS = 10_000
"""Launches with a reservation; beyond that the oldest is forgotten."""


def most_taken(
    overrides: Iterable[Mapping[str, Any]], pods: Mapping[str, int], machines: int
) -> dict[str, int]:
    """Subnet id -> addresses that a call for so many machines may take there: each has its pods (LCH-11).

    ``pods``: instance type -> pods; a type that is not in it takes none.
    """
    found: dict[str, int] = {}
    for override in overrides:
        subnet, most = override["SubnetId"], pods.get(override["InstanceType"], 0)
        found[subnet] = max(most * machines, found.get(subnet, 0))
    return found


def taken(instances: Iterable[FleetInstance], pods: Mapping[str, int]) -> dict[str, int]:
    """Subnet id -> addresses that the started instances may take."""
    found: dict[str, int] = {}
    for one in instances:
        if one.subnet_id:
            found[one.subnet_id] = found.get(one.subnet_id, 0) + pods.get(one.instance_type, 0)
    return found


@dataclass(frozen=True)
class _Reservation:
    addresses: Mapping[str, int]
    """Subnet id -> addresses."""
    until: float


@dataclass
class SubnetAddresses:
    """What launches in flight take of each subnet. ``now`` is monotonic time in seconds."""

    _reserved: dict[str, _Reservation] = field(default_factory=dict)
    """Launch -> its reservation, oldest first."""
    _taken: dict[str, int] = field(default_factory=dict)
    """Subnet id -> addresses of all reservations."""
    _full_until: dict[str, float] = field(default_factory=dict)

    def choose(
        self, subnets: Iterable[Subnet], now: float, *, is_ipv6: bool = False
    ) -> dict[str, str]:
        """Zone -> id of the subnet with most free addresses after all reservations; full ones only where a zone has no
        other (LCH-11, LCH-12). Of equals the one that sorts last. ``is_ipv6``: pods have addresses of that family.
        """
        self._expire(now)
        best: dict[str, Subnet] = {}
        for subnet in subnets:
            known = best.get(subnet.zone)
            if known is None or self._rank(subnet, is_ipv6) > self._rank(known, is_ipv6):
                best[subnet.zone] = subnet
        return {zone: subnet.id for zone, subnet in best.items()}

    def free(self, subnet: Subnet) -> int:
        """Addresses that are left when every launch in flight has its own; may be below zero."""
        return subnet.available_ips - self._taken.get(subnet.id, 0)

    def reserve(self, launch: str, addresses: Mapping[str, int], now: float) -> None:
        """A launch is about to ask for these: subnet id -> addresses that its largest machines there may take. A second
        reservation of the same launch replaces the first.
        """
        self._release(launch)
        if not addresses:
            return
        while len(self._reserved) >= MOST_RESERVATIONS:
            self._release(next(iter(self._reserved)))
        self._reserved[launch] = _Reservation(dict(addresses), now + RESERVATION_SECONDS)
        for subnet, count in addresses.items():
            self._taken[subnet] = self._taken.get(subnet, 0) + count

    def settle(self, launch: str, taken: Mapping[str, int], now: float) -> None:
        """EC2 answered: its machines took so many addresses, by subnet id; empty when there are none."""
        self.reserve(launch, taken, now)

    def exhausted(self, subnet_id: str, now: float) -> None:
        """EC2 answered InsufficientFreeAddressesInSubnet (LCH-12)."""
        self._full_until[subnet_id] = now + RESERVATION_SECONDS

    def _rank(self, subnet: Subnet, is_ipv6: bool) -> tuple[bool, int, str]:
        free = -self._taken.get(subnet.id, 0) if is_ipv6 else self.free(subnet)
        return subnet.id not in self._full_until, free, subnet.id

    def _expire(self, now: float) -> None:
        ended = [launch for launch, one in self._reserved.items() if one.until <= now]
        for launch in ended:
            self._release(launch)
        self._full_until = {s: until for s, until in self._full_until.items() if until > now}

    def _release(self, launch: str) -> None:
        found = self._reserved.pop(launch, None)
        for subnet, count in found.addresses.items() if found else ():
            left = self._taken.pop(subnet, 0) - count
            if left > 0:
                self._taken[subnet] = left


@dataclass
class SubnetReservations:
    """Reserves addresses for the calls of this launcher, by their records."""

    catalogues: CatalogueSource
    clock: Clock
    is_ipv6: Callable[[], bool]
    """Do pods have IPv6 addresses, as far as is known?"""
    addresses: SubnetAddresses = field(default_factory=SubnetAddresses)
    zone_ids: dict[str, str] = field(default_factory=dict)
    """Zone -> its id, of all subnets that this launcher chose among (MET-10); EC2's errors name the zone alone."""

    def choose(self, subnets: Sequence[Subnet]) -> dict[str, str]:
        """Zone -> id of the subnet to launch into."""
        self.zone_ids.update({subnet.zone: subnet.zone_id for subnet in subnets})
        return self.addresses.choose(subnets, self.clock.monotonic(), is_ipv6=self.is_ipv6())

    async def reserve(self, record: LaunchRecord) -> None:
        """Other launches count on the addresses that are left when this call has all it asks for (LCH-11)."""
        overrides, machines = overrides_of(record.request), len(record.subjects)
        desired = most_taken(overrides, await self._pods(), machines)
        self.addresses.reserve(record.token, desired, self.clock.monotonic())

    async def settle(self, record: LaunchRecord, instances: Iterable[FleetInstance]) -> None:
        """Count only what the call took, as EC2 answered (LCH-11)."""
        used = taken(instances, await self._pods())
        self.addresses.settle(record.token, used, self.clock.monotonic())

    def exhausted(self, subnet_id: str) -> None:
        """EC2 has no address left in this subnet."""
        self.addresses.exhausted(subnet_id, self.clock.monotonic())

    async def _pods(self) -> dict[str, int]:
        """Pods by instance type, with the usual settings: near enough to compare subnets."""
        catalogue = await self.catalogues.get()
        return {t.name: t.capacity.get(PODS, 0) for t in catalogue.types} if catalogue else {}
