"""Control requests about instances: interruptions, raw messages, impaired status, lifecycle states.

Instances are named by id or selected by zone, type, capacity type and share. A selection is made once, from the live
instances in launch order, and the same seed selects the same instances.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from random import Random

from moto.sqs.models import sqs_backends

from local.aws.autoscaling.groups import end_by_group
from local.aws.control import requests
from local.aws.control.requests import Answer, ControlError, Handler
from local.aws.ec2.instances import TERMINATION_STATES, Instance
from local.aws.ec2.refusal import RequestRefused
from local.aws.ec2.statuses import Status
from local.aws.emulator import Emulator
from local.aws.interruptions.malformed import MALFORMED
from local.aws.interruptions.notices import Maintenance
from local.aws.moto.state import ACCOUNT_ID

MAINTENANCE_SECONDS = 3600.0
HEALTH_MESSAGE_ENTITIES = 100
"""Most instances in one Health event."""


class EventControl:
    """One handler per path; each raises ControlError."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self.handlers: dict[str, Handler] = {
            "interruptions": (requests.InterruptionRequest, self._interruptions),
            "lifecycle": (requests.LifecycleRequest, self._lifecycle),
            "messages": (requests.MessagesRequest, self._messages),
            "statuses": (requests.StatusesRequest, self._statuses),
        }

    def _interruptions(self, request: requests.InterruptionRequest) -> Answer:
        ids = self._chosen(request, foreign=request.foreign)
        region = self._emulator.settings.region
        with self._emulator.interruptions.delivering(request.copies):
            if request.kind == "health":
                overrides = request.health_overrides()
                for start in range(0, len(ids), HEALTH_MESSAGE_ENTITIES):
                    part = ids[start : start + HEALTH_MESSAGE_ENTITIES]
                    self._emulator.interruptions.schedule_maintenance(region, part, overrides)
            else:
                for instance_id in ids:
                    self._announce(request, region, instance_id)
        return {"instanceIds": ids}

    def _announce(
        self, request: requests.InterruptionRequest, region: str, instance_id: str
    ) -> None:
        events = self._emulator.interruptions
        instance = self._emulator.inventory.get(instance_id)
        zone = f"{region}a" if instance is None else instance.zone
        if request.kind == "spot":
            events.warn_spot(region, instance_id, zone, request.notice_seconds)
        elif request.kind == "rebalance":
            events.recommend_rebalance(region, instance_id, zone)
        elif request.kind == "capacity-reservation":
            events.warn_capacity_reservation(region, instance_id, zone)
        elif request.kind == "autoscaling":
            self._scale_in(instance, instance_id, request.heartbeat_timeout_seconds)
        else:
            self._change_state(instance, instance_id, request.state)

    def _scale_in(self, instance: Instance | None, instance_id: str, seconds: float) -> None:
        if instance is None:
            raise ControlError(
                f"unknown instance {instance_id}",
                "instanceId",
                "a group can terminate only its own instances",
            )
        try:
            end_by_group(self._emulator.autoscaling, instance, seconds)
        except RequestRefused as refused:
            raise ControlError(refused.message, "instanceId", "name a live instance") from refused

    def _change_state(self, instance: Instance | None, instance_id: str, state: str) -> None:
        """Apply and announce a state. Stopping and terminating change the instance, which announces itself; other
        states are only announced.
        """
        if instance is not None and state in {"stopping", "stopped"}:
            self._emulator.inventory.stop(instance)
        elif instance is not None and state in {"shutting-down", "terminated"}:
            self._emulator.inventory.terminate(instance)
        else:
            region = self._emulator.settings.region
            self._emulator.interruptions.report_state(region, instance_id, state)

    def _messages(self, request: requests.MessagesRequest) -> None:
        if request.malformed is not None and request.malformed not in MALFORMED:
            raise ControlError(
                f"unknown malformed message {request.malformed}",
                "malformed",
                f"use one of {', '.join(MALFORMED)}",
            )
        text = request.body if request.malformed is None else MALFORMED[request.malformed]
        settings = self._emulator.settings
        queue = sqs_backends[ACCOUNT_ID][settings.region]
        for _ in range(request.count):
            queue.send_message(settings.cluster_name, text)

    def _statuses(self, request: requests.StatusesRequest) -> Answer:
        ids = self._chosen(request)
        now = self._emulator.clock.now()
        event = None if request.event is None else _maintenance(request, now)
        impaired = "impaired" in (request.instance, request.system, request.ebs)
        status = Status(
            request.instance,
            request.system,
            request.ebs,
            now - request.impaired_for_seconds if impaired else None,
            () if event is None else (event,),
        )
        with self._emulator.inventory.lock:
            for instance_id in ids:
                self._emulator.statuses.state(instance_id, status)
        for instance_id in ids:
            self._add_notice(instance_id, event)
        return {"instanceIds": ids}

    def _add_notice(self, instance_id: str, event: Maintenance | None) -> None:
        notices = self._emulator.notices
        if event is None:
            notices.cancel_maintenance(instance_id)
        else:
            notices.schedule(instance_id, event)

    def _lifecycle(self, request: requests.LifecycleRequest) -> Answer:
        ids = self._chosen(request)
        for instance_id in ids:
            self._emulator.notices.set_lifecycle(instance_id, request.target_lifecycle_state)
        return {"instanceIds": ids}

    def _chosen(self, request: requests.Chosen, *, foreign: bool = False) -> list[str]:
        """The ids of the selected instances, at least one. Raises ControlError."""
        ids = request.ids() if request.where is None else self._matching(request.where)
        if not ids:
            fix = "name an instance" if request.where is None else "no live instance matches"
            raise ControlError("no instance", "instanceId", fix)
        missing = [i for i in ids if self._emulator.inventory.get(i) is None]
        if missing and not foreign:
            raise ControlError(
                f"unknown instance {missing[0]}",
                "instanceId",
                "use an id of GET /_dovetail/instances"
                + (", or set foreign to true" if isinstance(request, _FOREIGN) else ""),
            )
        return ids

    def _matching(self, where: requests.Where) -> list[str]:
        found = [
            instance.instance_id
            for instance in self._emulator.inventory.all()
            if instance.state not in TERMINATION_STATES
            and fnmatchcase(instance.zone, where.zone)
            and fnmatchcase(instance.instance_type, where.instance_type)
            and where.capacity_type in ("*", instance.lifecycle)
        ]
        if where.percent >= 100 or not found:
            return found
        number = max(1, round(len(found) * where.percent / 100))
        places = Random(where.seed).sample(range(len(found)), number)
        return [found[place] for place in sorted(places)]


_FOREIGN = requests.InterruptionRequest


def _maintenance(request: requests.StatusesRequest, now: float) -> Maintenance:
    code = str(request.event)
    start = now + request.event_in_seconds
    return Maintenance(
        event_id=f"instance-event-{int(now * 1000):017x}",
        code=code,
        description=f"The instance is scheduled for {code}",
        not_before=start,
        not_after=start + MAINTENANCE_SECONDS,
    )
