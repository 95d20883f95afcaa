"""EC2 Auto Scaling's calls about members and lifecycle actions, which replace or complete those of moto."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from local.aws.autoscaling.hooks import Member
from local.aws.emulator import Emulator
from shared.concurrency.clock import rfc3339

Parameters = Mapping[str, Any]
Action = Callable[[Emulator, str, Parameters], dict[str, Any]]


def attach_instances(emulator: Emulator, region: str, parameters: Parameters) -> dict[str, Any]:
    """Attach instances to a group. Raises RequestRefused."""
    group = str(parameters.get("AutoScalingGroupName") or "")
    emulator.autoscaling.attach(region, group, parameters.get("InstanceIds") or [])
    return {}


def describe_auto_scaling_instances(
    emulator: Emulator, region: str, parameters: Parameters
) -> dict[str, Any]:
    """The members, all in one page."""
    found = emulator.autoscaling.members(region, parameters.get("InstanceIds") or [])
    return {"AutoScalingInstances": [_row(member) for member in found]}


def terminate_instance_in_auto_scaling_group(
    emulator: Emulator, region: str, parameters: Parameters
) -> dict[str, Any]:
    """Terminate one instance through its group. Raises RequestRefused."""
    member = emulator.autoscaling.terminate(region, str(parameters.get("InstanceId") or ""))
    return {"Activity": _activity(emulator, member)}


def record_lifecycle_action_heartbeat(
    emulator: Emulator, region: str, parameters: Parameters
) -> dict[str, Any]:
    """Extend the wait of a lifecycle action. Raises RequestRefused."""
    emulator.autoscaling.heartbeat(region, dict(parameters))
    return {}


def complete_lifecycle_action(
    emulator: Emulator, region: str, parameters: Parameters
) -> dict[str, Any]:
    """Complete a lifecycle action with a result. Raises RequestRefused."""
    emulator.autoscaling.complete(region, dict(parameters))
    return {}


ACTIONS: dict[str, Action] = {
    one.__name__: one
    for one in (
        attach_instances, describe_auto_scaling_instances, terminate_instance_in_auto_scaling_group,
        record_lifecycle_action_heartbeat, complete_lifecycle_action,
    )
}  # fmt: skip


def _row(member: Member) -> dict[str, Any]:
    instance = member.instance
    return {
        "InstanceId": instance.instance_id,
        "InstanceType": instance.instance_type,
        "AutoScalingGroupName": member.group,
        "AvailabilityZone": instance.zone,
        "LifecycleState": member.state,
        "HealthStatus": "HEALTHY",
        "ProtectedFromScaleIn": False,
    }


def _activity(emulator: Emulator, member: Member) -> dict[str, Any]:
    return {
        "ActivityId": str(uuid.UUID(hex=secrets.token_hex(16))),
        "AutoScalingGroupName": member.group,
        "Description": f"Terminating EC2 instance: {member.instance.instance_id}",
        "Cause": "An instance was taken out of service in response to a user request.",
        "StartTime": rfc3339(emulator.clock.now()),
        "StatusCode": "InProgress",
        "Progress": 0,
    }
