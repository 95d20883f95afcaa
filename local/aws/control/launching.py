"""Control requests about what EC2 has: capacity, cut fleets, quotas, subnets, reservations,
templates, and faults of calls.
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

CLEAR_FIRST = "POST /_dovetail/clear first"


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
        wanted = requests.CapacityRequest.model_validate_json(body)
        matching = self._check_types(wanted.instance_type)
        self._check_zone(wanted.zone)
        with self._emulator.inventory.lock:
            _bounded(lambda: self._emulator.capacity.state(wanted.statement()), "instanceType")
        return {"ok": True, "instanceTypes": matching}

    def _check_types(self, pattern: str) -> int:
        """How many types match. Raises ControlError when none does."""
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
        wanted = requests.FaultRequest.model_validate_json(body)
        faults = self._emulator.faults
        _bounded(lambda: faults.order(wanted.action, wanted.fault(), wanted.occurrence()), "action")
        return {"ok": True}

    def _fleets(self, body: bytes) -> Any:
        wanted = requests.FleetsRequest.model_validate_json(body)
        with self._emulator.inventory.lock:
            _bounded(lambda: self._emulator.capacity.cut_fleets(Cut(**wanted.model_dump())), "give")
        return {"ok": True}

    def _quotas(self, body: bytes) -> Any:
        wanted = requests.QuotasRequest.model_validate_json(body)
        with self._emulator.inventory.lock:
            for name, value in wanted.model_dump(exclude_unset=True).items():
                setattr(self._emulator.quotas, name, value)
        return {"ok": True}

    def _subnets(self, body: bytes) -> Any:
        wanted = requests.SubnetsRequest.model_validate_json(body)
        with self._emulator.inventory.lock:
            found = [
                subnet
                for subnet in all_subnets(self._emulator.ec2(self._emulator.settings.region))
                if wanted.subnet_id in (None, subnet.id)
                and wanted.zone in (None, subnet.availability_zone)
            ]
            for subnet in found:
                addresses.leave_free(subnet, wanted.free_addresses)
        if not found:
            field = "zone" if wanted.subnet_id is None else "subnetId"
            raise ControlError("no such subnet", field, "use one of DescribeSubnets")
        return {"ok": True, "subnets": [subnet.id for subnet in found]}

    def _reservations(self, body: bytes) -> Any:
        wanted = requests.ReservationRequest.model_validate_json(body)
        self._check_one_pool(wanted)
        given = wanted.model_dump(exclude={"ends_in_seconds"})
        seconds = wanted.ends_in_seconds
        reservation = Reservation(
            **given,
            zone_id=self._emulator.catalogue.zone_ids[wanted.zone],
            ends_at=None if seconds is None else self._emulator.clock.now() + seconds,
        )
        with self._emulator.inventory.lock:
            _bounded(lambda: self._emulator.reservations.add(reservation), "count")
        return {"ok": True, "reservationId": reservation.reservation_id}

    def _check_one_pool(self, wanted: requests.ReservationRequest) -> None:
        catalogue = self._emulator.catalogue
        if not catalogue.offers(self._emulator.settings.region, wanted.instance_type, wanted.zone):
            raise ControlError(
                f"{wanted.instance_type} is not offered in {wanted.zone}",
                "instanceType",
                "use one type and zone of DescribeInstanceTypeOfferings, without wildcards",
            )

    def _templates(self, body: bytes) -> Any:
        wanted = requests.TemplatesRequest.model_validate_json(body)
        with self._emulator.inventory.lock:
            backend = self._emulator.ec2(self._emulator.settings.region)
            names = [
                template.name
                for template in backend.launch_templates.values()
                if fnmatchcase(template.name, wanted.delete)
            ]
            for name in names:
                backend.delete_launch_template(name, None)
        return {"ok": True, "deleted": names}


def _bounded(change: Callable[[], None], field: str) -> None:
    try:
        change()
    except OverflowError as full:
        raise ControlError(str(full), field, CLEAR_FIRST) from full
