"""The EventBridge rules that fill the interruption queue, in one list (INT-06, INT-41).

From it come the files in deploy/iam (``make crds``), ``dovetail interruption check`` and the emulator's rules.
"""

from __future__ import annotations

from typing import NamedTuple


class EventRule(NamedTuple):
    """Which events go to the queue; the rule's name is that of the cluster, a hyphen and ``name``."""

    name: str
    source: str
    detail_type: str


LIFECYCLE = EventRule(
    "LifecycleTermination", "aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"
)
"""For LIFECYCLE_HOOKS alone."""
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
