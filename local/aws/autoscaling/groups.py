"""Creates an auto scaling group for an instance without one, so that its termination can be observed."""

from __future__ import annotations

from typing import Any

from moto.autoscaling.models import autoscaling_backends

from local.aws.autoscaling.hooks import CONTINUE, TERMINATING, AutoScaling
from local.aws.ec2.instances import Instance
from local.aws.moto.state import ACCOUNT_ID

HOOK = "drain"
MANAGED_TAG = "aws-node-termination-handler/managed"
MOST_INSTANCES = 100_000


def end_by_group(scaling: AutoScaling, instance: Instance, heartbeat_seconds: float) -> None:
    """Terminate the instance through its group, or through a new group that is created for it.

    ``heartbeat_seconds`` applies to the new group's hook. Raises RequestRefused.
    """
    region, instance_id = instance.region, instance.instance_id
    if not scaling.members(region, [instance_id]):
        name = f"dovetail-{heartbeat_seconds:.0f}"
        _make(instance, name, heartbeat_seconds)
        scaling.attach(region, name, [instance_id])
    scaling.terminate(region, instance_id)


def _make(instance: Instance, name: str, heartbeat_seconds: float) -> None:
    backend = autoscaling_backends[ACCOUNT_ID][instance.region]
    if name in backend.autoscaling_groups:
        return
    _make_launch_configuration(backend, instance, name)
    _make_group(backend, instance, name)
    backend.create_lifecycle_hook(HOOK, name, TERMINATING, int(heartbeat_seconds), CONTINUE)


def _make_launch_configuration(backend: Any, instance: Instance, name: str) -> None:
    unused = (
        "key_name",
        "kernel_id",
        "ramdisk_id",
        "user_data",
        "instance_profile_name",
        "spot_price",
    )
    backend.create_launch_configuration(
        name=name,
        image_id=instance.image_id,
        instance_type=instance.instance_type,
        security_groups=[],
        instance_monitoring=False,
        ebs_optimized=False,
        associate_public_ip_address=False,
        block_device_mappings=[],
        **dict.fromkeys(unused),
    )


def _make_group(backend: Any, instance: Instance, name: str) -> None:
    unused: tuple[str, ...] = (
        "launch_template",
        "default_cooldown",
        "health_check_period",
        "health_check_type",
        "placement_group",
    )
    backend.create_auto_scaling_group(
        name=name,
        availability_zones=[instance.zone],
        vpc_zone_identifier=instance.subnet_id,
        launch_config_name=name,
        min_size=0,
        max_size=MOST_INSTANCES,
        desired_capacity=0,  # moto must not start instances of its own
        load_balancers=[],
        target_group_arns=[],
        termination_policies=[],
        tags=[{"Key": MANAGED_TAG, "Value": "", "PropagateAtLaunch": True}],
        **dict.fromkeys(unused),
    )
