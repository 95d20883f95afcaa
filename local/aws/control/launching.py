"""Control requests about EC2's supply: capacity, truncated fleets, quotas, subnets, reservations, templates, and faults
of calls.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from local.aws.capacity.reservations import Reservation
from local.aws.capacity.stated import Cut
from local.aws.control import requests
from local.aws.control.requests import ControlError
from local.aws.ec2 import addresses
from local.aws.emulator import Emulator
from local.aws.moto.state import all_subnets

CLEAR_FIX = "POST /_dovetail/clear first"


class LaunchingControl:
    """One handler per path; each raises ControlError or pydantic's ValidationError."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self.handlers: dict[str, Callable[[bytes], Any]] = {
            "capacity": self._capacity,
            "faults": self._faults,
            "fleets": self._fleets,
            "launch-templates": self._templates,
            "quotas": self._quotas,
            "reservations": self._reservations,
            "subnets": self._subnets,
        }

    def _capacity(self, body: bytes) -> Any:
        request = requests.CapacityRequest.model_validate_json(body)
        matching = self._check_types(request.instance_type)
        self._check_zone(request.zone)
        with self._emulator.inventory.lock:
            _bounded(lambda: self._emulator.capacity.state(request.statement()), "instanceType")
        return {"ok": True, "instanceTypes": matching}

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

    def _faults(self, body: bytes) -> Any:
        request = requests.FaultRequest.model_validate_json(body)
        faults = self._emulator.faults
        _bounded(
            lambda: faults.order(request.action, request.fault(), request.occurrence()), "action"
        )
        return {"ok": True}

    def _fleets(self, body: bytes) -> Any:
        request = requests.FleetsRequest.model_validate_json(body)
        with self._emulator.inventory.lock:
            _bounded(
                lambda: self._emulator.capacity.cut_fleets(Cut(**request.model_dump())), "give"
            )
        return {"ok": True}

    def _quotas(self, body: bytes) -> Any:
        request = requests.QuotasRequest.model_validate_json(body)
        with self._emulator.inventory.lock:
            for name, value in request.model_dump(exclude_unset=True).items():
                setattr(self._emulator.quotas, name, value)
        return {"ok": True}

    def _subnets(self, body: bytes) -> Any:
        request = requests.SubnetsRequest.model_validate_json(body)
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
        return {"ok": True, "subnets": [subnet.id for subnet in found]}

    def _reservations(self, body: bytes) -> Any:
        request = requests.ReservationRequest.model_validate_json(body)
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
        return {"ok": True, "reservationId": reservation.reservation_id}

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

    def _templates(self, body: bytes) -> Any:
        request = requests.TemplatesRequest.model_validate_json(body)
        with self._emulator.inventory.lock:
            backend = self._emulator.ec2(self._emulator.settings.region)
            names = [
                template.name
                for template in backend.launch_templates.values()
                if fnmatchcase(template.name, request.delete)
            ]
            for name in names:
                backend.delete_launch_template(name, None)
        return {"ok": True, "deleted": names}


def _bounded(change: Callable[[], None], field: str) -> None:
    try:
        change()
    except OverflowError as full:
        raise ControlError(str(full), field, CLEAR_FIX) from full
