"""``/_dovetail/...``: how tests, the demo and the local kubelet steer and watch the emulator. JSON
both ways.

Wrong input is 400 with {"error", "field", "fix"}; an unknown path is 404; nothing here needs a
signature. The instance list is asked for several times a second, so the parts that never change are
kept per instance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson
from pydantic import ValidationError

from local.aws import control_requests as requests
from local.aws.emulator import Emulator
from local.aws.faults import Fault
from local.aws.instances import Instance

TERMINATED_LISTED_SECONDS = 60.0
"""How long the instance list still shows a terminated instance."""

PREFIX = "/_dovetail/"


class ControlError(Exception):
    """The answer for a request that cannot be served; ``field`` and ``fix`` say what to change."""

    def __init__(self, error: str, field: str, fix: str, status: int = 400) -> None:
        super().__init__(error)
        self.body = {"error": error, "field": field, "fix": fix}
        self.status = status


class Control:
    """One handler per path."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._fixed: dict[str, dict[str, Any]] = {}
        self._get: dict[str, Callable[[dict[str, str]], Any]] = {
            "health": lambda query: {"ok": True},
            "instances": lambda query: {"instances": self.instances()},
            "calls": self._calls,
        }
        self._post: dict[str, Callable[[bytes], Any]] = {
            "capacity": self._capacity,
            "faults": self._faults,
            "interruptions": self._interruptions,
            "settings": self._settings,
            "reset": self._reset,
        }

    def answer(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """(HTTP status, JSON)."""
        try:
            return 200, orjson.dumps(self._dispatch(method, path, query, body))
        except ValidationError as invalid:
            return 400, orjson.dumps(_first_problem(invalid))
        except ControlError as error:
            return error.status, orjson.dumps(error.body)

    def instances(self) -> list[dict[str, Any]]:
        """Every instance that is not terminated, or was within the last 60 s, in launch order."""
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
            return self._post[name](body)
        if name in self._get or name in self._post:
            wanted = "GET" if name in self._get else "POST"
            raise ControlError(f"{method} {path} is not offered", "method", f"use {wanted}", 405)
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

    def _capacity(self, body: bytes) -> Any:
        wanted = requests.CapacityRequest.model_validate_json(body or b"{}")
        self._check_pool(wanted)
        key = (wanted.instance_type, wanted.zone, wanted.capacity_type)
        with self._emulator.inventory.lock:
            self._emulator.capacity.state(key, wanted.available, wanted.code)
        return {"ok": True}

    def _check_pool(self, wanted: requests.CapacityRequest) -> None:
        if wanted.instance_type not in self._emulator.catalogue.types:
            raise ControlError(
                f"unknown instance type {wanted.instance_type}",
                "instanceType",
                "use a name of DescribeInstanceTypes such as m5.large",
            )
        if wanted.zone not in self._emulator.catalogue.zone_ids:
            zone = f"{self._emulator.settings.region}a"
            raise ControlError(f"unknown zone {wanted.zone}", "zone", f"use a zone such as {zone}")

    def _faults(self, body: bytes) -> Any:
        wanted = requests.FaultRequest.model_validate_json(body or b"{}")
        fault = Fault(wanted.code, wanted.message, wanted.status, wanted.mode)
        try:
            self._emulator.faults.order(wanted.action, fault, wanted.count)
        except OverflowError as full:
            raise ControlError(str(full), "action", "POST /_dovetail/reset first") from full
        return {"ok": True}

    def _interruptions(self, body: bytes) -> Any:
        wanted = requests.InterruptionRequest.model_validate_json(body or b"{}")
        ids = [*([wanted.instance_id] if wanted.instance_id else []), *wanted.instance_ids]
        if not ids:
            raise ControlError("no instance is named", "instanceId", "give an instance id")
        instances = [self._known_instance(i) for i in ids if not wanted.foreign]
        self._interrupt(wanted, ids, instances)
        return {"ok": True}

    def _known_instance(self, instance_id: str) -> Instance:
        instance = self._emulator.inventory.get(instance_id)
        if instance is None:
            raise ControlError(
                f"unknown instance {instance_id}",
                "instanceId",
                "use an id of GET /_dovetail/instances, or set foreign to true",
            )
        return instance

    def _interrupt(
        self, wanted: requests.InterruptionRequest, ids: list[str], instances: list[Instance]
    ) -> None:
        events, region = self._emulator.interruptions, self._emulator.settings.region
        if wanted.kind == "health":
            events.schedule_maintenance(region, ids, wanted.health_overrides())
            return
        zones = {instance.instance_id: instance.zone for instance in instances}
        for instance_id in ids:
            zone = zones.get(instance_id, f"{region}a")
            if wanted.kind == "spot":
                events.warn_spot(region, instance_id, zone, wanted.notice_seconds)
            elif wanted.kind == "rebalance":
                events.recommend_rebalance(region, instance_id, zone)
            elif wanted.kind == "capacity-reservation":
                events.warn_capacity_reservation(region, instance_id, zone)
            else:
                self._change_state(instance_id, wanted.state)

    def _change_state(self, instance_id: str, state: str) -> None:
        """Stopping and ending really happen, and are announced as they do; other states are only
        announced.
        """
        instance = self._emulator.inventory.get(instance_id)
        if instance is not None and state in {"stopping", "stopped"}:
            self._emulator.inventory.stop(instance)
        elif instance is not None and state in {"shutting-down", "terminated"}:
            self._emulator.inventory.terminate(instance)
        else:
            region = self._emulator.settings.region
            self._emulator.interruptions.report_state(region, instance_id, state)

    def _settings(self, body: bytes) -> Any:
        wanted = requests.SettingsRequest.model_validate_json(body or b"{}")
        for name, value in wanted.model_dump(exclude_none=True).items():
            setattr(self._emulator.behaviour, name, value)
        return {"ok": True}

    def _reset(self, body: bytes) -> Any:
        self._emulator.reset()
        self._fixed = {}
        return {"ok": True}


def _fixed_fields(instance: Instance) -> dict[str, Any]:
    """What never changes in the life of an instance."""
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
        "userData": instance.user_data,
        "lifecycle": instance.lifecycle,
        "vcpus": facts.vcpus,
        "memoryMiB": facts.memory_mib,
        "maxPods": facts.max_pods,
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
    return {"error": problem["msg"], "field": field, "fix": f"{field}: {problem['msg']}"}
