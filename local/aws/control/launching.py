"""Control requests about EC2's supply: capacity, truncated fleets, quotas, subnets, reservations, templates, and faults
of calls.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from local.aws.capacity.reservations import Reservation
from local.aws.capacity.stated import Cut
from local.aws.control import requests
from local.aws.control.requests import Answer, ControlError, Handler
from local.aws.ec2 import addresses
from local.aws.emulator import Emulator
from local.aws.moto.state import all_subnets

CLEAR_FIX = "POST /_dovetail/clear first"


class LaunchingControl:
    """One handler per path; each raises ControlError."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self.handlers: dict[str, Handler] = {
            "capacity": (requests.CapacityRequest, self._capacity),
            "faults": (requests.FaultRequest, self._faults),
            "fleets": (requests.FleetsRequest, self._fleets),
            "launch-templates": (requests.TemplatesRequest, self._templates),
            "quotas": (requests.QuotasRequest, self._quotas),
            "reservations": (requests.ReservationRequest, self._reservations),
            "subnets": (requests.SubnetsRequest, self._subnets),
        }

    def _capacity(self, request: requests.CapacityRequest) -> Answer:
        matching = self._check_types(request.instance_type)
        self._check_zone(request.zone)
        with self._emulator.inventory.lock:
            _bounded(lambda: self._emulator.capacity.state(request.statement()), "instanceType")
        return {"instanceTypes": matching}

    def _check_types(self, pattern: str) -> int:
        """The number of matching types. Raises ControlError when none matches."""
        matching = sum(fnmatchcase(name, pattern) for name in self._emulator.catalogue.types)
        if not matching:
            raise ControlError(
                f"unknown instance type {pattern}",
                "instanceType",
                "use a name of DescribeInstanceTypes such as m5.large, or a pattern such as m5.*",
            )
        return matching

    def _check_zone(self, pattern: str) -> None:
        if not any(fnmatchcase(zone, pattern) for zone in self._emulator.catalogue.zone_ids):
            zone = f"{self._emulator.settings.region}a"
            raise ControlError(f"unknown zone {pattern}", "zone", f"use a zone such as {zone}")

    def _faults(self, request: requests.FaultRequest) -> None:
        faults = self._emulator.faults
        _bounded(
            lambda: faults.order(request.action, request.fault(), request.occurrence()), "action"
        )

    def _fleets(self, request: requests.FleetsRequest) -> None:
        with self._emulator.inventory.lock:
            _bounded(
                lambda: self._emulator.capacity.cut_fleets(Cut(**request.model_dump())), "give"
            )

    def _quotas(self, request: requests.QuotasRequest) -> None:
        with self._emulator.inventory.lock:
            for name, value in request.model_dump(exclude_unset=True).items():
                setattr(self._emulator.quotas, name, value)

    def _subnets(self, request: requests.SubnetsRequest) -> Answer:
        with self._emulator.inventory.lock:
            found = [
                subnet
                for subnet in all_subnets(self._emulator.ec2(self._emulator.settings.region))
                if request.subnet_id in (None, subnet.id)
                and request.zone in (None, subnet.availability_zone)
            ]
            for subnet in found:
                addresses.leave_free(subnet, request.free_addresses)
        if not found:
            field = "zone" if request.subnet_id is None else "subnetId"
            raise ControlError("no such subnet", field, "use one of DescribeSubnets")
        return {"subnets": [subnet.id for subnet in found]}

    def _reservations(self, request: requests.ReservationRequest) -> Answer:
        self._check_one_pool(request)
        given = request.model_dump(exclude={"ends_in_seconds"})
        seconds = request.ends_in_seconds
        reservation = Reservation(
            **given,
            zone_id=self._emulator.catalogue.zone_ids[request.zone],
            ends_at=None if seconds is None else self._emulator.clock.now() + seconds,
        )
        with self._emulator.inventory.lock:
            _bounded(lambda: self._emulator.reservations.add(reservation), "count")
        return {"reservationId": reservation.reservation_id}

    def _check_one_pool(self, request: requests.ReservationRequest) -> None:
        catalogue = self._emulator.catalogue
        if not catalogue.offers(
            self._emulator.settings.region, request.instance_type, request.zone
        ):
            raise ControlError(
                f"{request.instance_type} is not offered in {request.zone}",
                "instanceType",
                "use one type and zone of DescribeInstanceTypeOfferings, without wildcards",
            )

    def _templates(self, request: requests.TemplatesRequest) -> Answer:
        with self._emulator.inventory.lock:
            backend = self._emulator.ec2(self._emulator.settings.region)
            names = [
                template.name
                for template in backend.launch_templates.values()
                if fnmatchcase(template.name, request.delete)
            ]
            for name in names:
                backend.delete_launch_template(name, None)
        return {"deleted": names}


def _bounded(change: Callable[[], None], field: str) -> None:
    try:
        change()
    except OverflowError as full:
        raise ControlError(str(full), field, CLEAR_FIX) from full
