"""The EventBridge rules that send events to the interruption queue (INT-06, INT-41).

The files in deploy/iam (``make crds``), ``dovetail interruption check`` and the emulator use this list.
"""

from __future__ import annotations

from typing import NamedTuple


class EventRule(NamedTuple):
    """The events that one rule sends to the queue. Its full name is the cluster's name, a hyphen and ``name``."""

    name: str
    source: str
    detail_type: str


LIFECYCLE = EventRule(
    "LifecycleTermination", "aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"
)
"""Needed only with the setting LIFECYCLE_HOOKS."""
EVENT_RULES = (
    EventRule("HealthEvents", "aws.health", "AWS Health Event"),
    EventRule("SpotInterruption", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
    EventRule("Rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
    EventRule("InstanceStateChange", "aws.ec2", "EC2 Instance State-change Notification"),
    EventRule(
        "CapacityReservationInterruption",
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ),
    LIFECYCLE,
)
