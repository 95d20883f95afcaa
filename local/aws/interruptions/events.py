"""EC2 and Health events, sent through moto's EventBridge to the queues of its rules (INT-06 to INT-14).

A spot warning is followed by the real termination after the notice; every state change of an instance is announced as
on EC2. Events are sent on the timer thread or a request thread, and a caller's lock is held only briefly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from moto.events.models import events_backends

from local.aws.clock.timers import Timers
from local.aws.ec2.instances import SPOT_TERMINATION, TERMINATION_STATES, Inventory
from local.aws.interruptions.notices import Maintenance, Notices
from local.aws.moto.speed import COPIES
from local.aws.moto.state import ACCOUNT_ID
from local.aws.settings import Behaviour
from shared.concurrency.clock import Clock

SPOT_WARNING = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE_CHANGE = "EC2 Instance State-change Notification"
HEALTH = "AWS Health Event"
CAPACITY_RESERVATION = "EC2 Capacity Reservation Instance Interruption Warning"
LIFECYCLE_TERMINATION = "EC2 Instance-terminate Lifecycle Action"


@dataclass(frozen=True, slots=True)
class Interruptions:
    """Sends events about instances and performs what they announce."""

    inventory: Inventory
    behaviour: Behaviour
    timers: Timers
    clock: Clock
    notices: Notices

    @contextmanager
    def delivering(self, copies: int) -> Iterator[None]:
        """Inside the block the queue gets every message ``copies`` times, with the same id."""
        before = COPIES.set(copies)
        try:
            yield
        finally:
            COPIES.reset(before)

    def warn_spot(self, region: str, instance_id: str, zone: str, notice: float | None) -> None:
        """Send the two-minute warning now and terminate after ``notice`` seconds (None: as configured)."""
        detail = {"instance-id": instance_id, "instance-action": "terminate"}
        self._put(region, "aws.ec2", SPOT_WARNING, detail, [_arn(zone, instance_id)])
        seconds = self.behaviour.interruption_notice_seconds if notice is None else notice
        self.notices.warn_spot(instance_id, self.clock.now() + seconds)
        self.timers.after(seconds, lambda: self._reclaim(instance_id))

    def recommend_rebalance(self, region: str, instance_id: str, zone: str) -> None:
        """Send the rebalance recommendation; nothing else happens."""
        self.notices.recommend_rebalance(instance_id, self.clock.now())
        detail = {"instance-id": instance_id}
        self._put(region, "aws.ec2", REBALANCE, detail, [_arn(zone, instance_id)])

    def warn_capacity_reservation(self, region: str, instance_id: str, zone: str) -> None:
        """Send the capacity reservation warning (INT-14); nothing else happens."""
        detail = {"instance-id": instance_id, "instance-action": "terminate"}
        self._put(region, "aws.ec2", CAPACITY_RESERVATION, detail, [_arn(zone, instance_id)])

    def announce_lifecycle(self, region: str, detail: Mapping[str, str]) -> None:
        """Announce that a hook of an auto scaling group waits (INT-41)."""
        group = (
            f"arn:aws:autoscaling:{region}:{ACCOUNT_ID}:autoScalingGroup:*:autoScalingGroupName/"
        )
        resources = [group + detail["AutoScalingGroupName"]]
        self._put(region, "aws.autoscaling", LIFECYCLE_TERMINATION, detail, resources)

    def report_state(self, region: str, instance_id: str, state: str) -> None:
        """Send the state-change notification that EC2 sends on every change."""
        detail = {"instance-id": instance_id, "state": state}
        self._put(region, "aws.ec2", STATE_CHANGE, detail, [_arn(region, instance_id)])

    def schedule_maintenance(
        self, region: str, instance_ids: Sequence[str], overrides: Mapping[str, str]
    ) -> None:
        """Send a Health event that names ``instance_ids`` (INT-13). ``overrides`` replace detail fields."""
        start = self.clock.now() + 86_400
        for instance_id in instance_ids:
            self.notices.schedule(instance_id, _retirement(instance_id, start))
        detail: dict[str, Any] = {
            "eventArn": f"arn:aws:health:{region}::event/EC2/dovetail/{instance_ids[0]}",
            "service": "EC2",
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "eventTypeCategory": "scheduledChange",
            "startTime": formatdate(start, usegmt=True),
            "endTime": formatdate(start + 3600, usegmt=True),
            "eventDescription": [
                {"language": "en_US", "latestDescription": "Instance retirement is scheduled."}
            ],
            **overrides,
            "affectedEntities": [{"entityValue": instance_id} for instance_id in instance_ids],
        }
        self._put(region, "aws.health", HEALTH, detail, list(instance_ids))

    def _reclaim(self, instance_id: str) -> None:
        instance = self.inventory.get(instance_id)
        if instance is not None and instance.state not in TERMINATION_STATES:
            self.inventory.terminate(instance, SPOT_TERMINATION)

    def _put(
        self,
        region: str,
        source: str,
        detail_type: str,
        detail: Mapping[str, Any],
        resources: list[str],
    ) -> None:
        event = {
            "Source": source,
            "DetailType": detail_type,
            "Detail": json.dumps(detail),
            "Resources": resources,
            "Time": self.clock.now(),
        }
        events_backends[ACCOUNT_ID][region].put_events([event])


def _retirement(instance_id: str, start: float) -> Maintenance:
    event_id = f"instance-event-{instance_id.removeprefix('i-')}"
    text = "The instance is scheduled for retirement"
    return Maintenance(event_id, "instance-retirement", text, start, start + 3600)


def _arn(place: str, instance_id: str) -> str:
    """An instance ARN. EC2 writes the zone into the account position of spot ARNs; see INT-10."""
    return f"arn:aws:ec2:{place}:instance/{instance_id}"
