"""``/_dovetail/...``: the JSON endpoint with which tests, the demo and the local kubelet control and observe the
emulator.

Invalid input is 400 with {"error", "field", "fix"}; an unknown path is 404; no request needs a signature. The instance
list is read several times a second, so its constant parts are cached per instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from local.aws.control import requests
from local.aws.control.events import EventControl
from local.aws.control.launching import LaunchingControl
from local.aws.control.requests import Answer, ControlError, Handler
from local.aws.ec2.instances import Instance
from local.aws.emulator import Emulator

TERMINATED_LISTED_SECONDS = 60.0
"""Time during which the instance list still shows a terminated instance."""

PREFIX = "/_dovetail/"


class Control:
    """Dispatches each path to its handler."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._fixed: dict[str, dict[str, Any]] = {}
        self._get: dict[str, Callable[[dict[str, str]], Any]] = {
            "health": lambda query: {"ok": True},
            "instances": lambda query: {"instances": self.instances()},
            "calls": self._calls,
            "trail": lambda query: {"events": emulator.trail.events()},
            "faults": lambda query: {"faults": emulator.faults.waiting()},
            "bill": self._bill,
            "capacity": lambda query: self._stated_capacity(),
            "settings": lambda query: _camel(asdict(emulator.behaviour)),
        }
        self._post: dict[str, Handler] = {
            **LaunchingControl(emulator).handlers,
            **EventControl(emulator).handlers,
            "settings": (requests.SettingsRequest, self._settings),
            "clock": (requests.ClockRequest, self._clock),
            "zonal-shift": (requests.ZonalShiftRequest, self._zonal_shift),
            "clear": (None, self._clear),
            "reset": (None, self._reset),
        }

    def answer(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """(HTTP status, JSON)."""
        try:
            answer = self._dispatch(method, path, query, body)
            return 200, orjson.dumps(answer, default=str)
        except ValidationError as invalid:
            return 400, orjson.dumps(_first_problem(invalid))
        except ControlError as error:
            return error.status, orjson.dumps(error.body)

    def instances(self) -> list[dict[str, Any]]:
        """Every instance that is not terminated or was terminated within the last 60 s, in launch order."""
        oldest = self._emulator.clock.monotonic() - TERMINATED_LISTED_SECONDS
        listed = [
            instance
            for instance in self._emulator.inventory.all()
            if instance.terminated_monotonic is None or instance.terminated_monotonic > oldest
        ]
        if len(self._fixed) > 2 * len(listed) + 100:
            self._fixed = {}
        return [self._instance(instance) for instance in listed]

    def _dispatch(self, method: str, path: str, query: dict[str, str], body: bytes) -> Any:
        name = path.removeprefix(PREFIX)
        if method == "GET" and name in self._get:
            return self._get[name](query)
        if method == "POST" and name in self._post:
            model, handler = self._post[name]
            request = None if model is None else model.model_validate_json(body or b"{}")
            return {"ok": True, **(handler(request) or {})}
        if name in self._get or name in self._post:
            method_needed = "GET" if name in self._get else "POST"
            raise ControlError(
                f"{method} {path} is not offered", "method", f"use {method_needed}", 405
            )
        known = ", ".join(sorted([*self._get, *self._post]))
        raise ControlError(f"no such path {path}", "path", f"use one of {known}", 404)

    def _instance(self, instance: Instance) -> dict[str, Any]:
        fixed = self._fixed.get(instance.instance_id)
        if fixed is None:
            fixed = self._fixed[instance.instance_id] = _fixed_fields(instance)
        return {**fixed, "state": instance.state, "tags": dict(instance.tags)}

    def _calls(self, query: dict[str, str]) -> Any:
        calls = self._emulator.recorder.calls(query.get("action"))
        return {"calls": [asdict(call) for call in calls]}

    def _bill(self, query: dict[str, str]) -> Any:
        now = self._emulator.clock.now()
        begin, end = (_number(query, name, usual) for name, usual in (("from", 0.0), ("to", now)))
        lines = self._emulator.bill.lines(begin, end)
        return {
            "dollars": sum(line.dollars for line in lines),
            "instanceSeconds": sum(line.seconds for line in lines),
            "lines": [
                {
                    **_camel(line.pool._asdict()),
                    "instances": line.instances,
                    "seconds": line.seconds,
                    "dollars": line.dollars,
                }
                for line in lines
            ],
        }

    def _settings(self, request: requests.SettingsRequest) -> None:
        for name, value in request.changes().items():
            setattr(self._emulator.behaviour, name, value)

    def _clock(self, request: requests.ClockRequest) -> Answer:
        self._emulator.step(request.step_seconds)
        return {"now": self._emulator.clock.now()}

    def _zonal_shift(self, request: requests.ZonalShiftRequest) -> None:
        zone_id = self._emulator.catalogue.zone_ids.get(request.zone)
        if zone_id is None:
            raise ControlError(
                f"{request.zone} is no zone", "zone", "use a zone such as us-west-2a"
            )
        self._emulator.zonal_shifts.set(zone_id, active=request.active)

    def _stated_capacity(self) -> Any:
        with self._emulator.inventory.lock:
            stated = self._emulator.capacity.described()
            quotas = _camel(asdict(self._emulator.quotas))
        return {name: [_camel(row) for row in rows] for name, rows in stated.items()} | {
            "quotas": quotas
        }

    def _clear(self, _request: None) -> None:
        self._emulator.clear()

    def _reset(self, _request: None) -> None:
        self._emulator.reset()
        self._fixed = {}


def _number(query: dict[str, str], name: str, usual: float) -> float:
    text = query.get(name)
    try:
        found = usual if text is None else float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ControlError(
            f"{name} is not a time: {text}", name, "use seconds since the epoch, such as 1790000000"
        )
    return found


def _camel(row: dict[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in row.items()}


def _fixed_fields(instance: Instance) -> dict[str, Any]:
    """The fields that never change during the life of an instance."""
    facts = instance.facts
    return {
        "instanceId": instance.instance_id,
        "instanceType": facts.name,
        "zone": instance.zone,
        "zoneId": instance.zone_id,
        "region": instance.region,
        "launchedAt": instance.launched_at,
        "privateDnsName": instance.private_dns_name,
        "privateIp": instance.private_ip,
        "architecture": facts.architecture,
        "imageId": instance.image_id,
        "imageName": instance.image_name,
        "userData": instance.user_data,
        "lifecycle": instance.lifecycle,
        "vcpus": facts.vcpus,
        "memoryMiB": facts.memory_mib,
        "maxPods": facts.max_pods,
        "maxVolumes": facts.max_volumes,
        "largestVolumeGiB": instance.largest_volume_gib,
        "instanceStoreGB": facts.instance_store_gb,
        "gpus": [
            {
                "name": gpu.name,
                "manufacturer": gpu.manufacturer,
                "count": gpu.count,
                "memoryMiB": gpu.memory_mib,
            }
            for gpu in facts.gpus
        ],
    }


def _first_problem(invalid: ValidationError) -> dict[str, str]:
    problem = invalid.errors()[0]
    field = ".".join(str(part) for part in problem["loc"]) or "body"
    text = problem["msg"].removeprefix("Value error, ")
    return {"error": text, "field": field, "fix": f"{field}: {text}"}
