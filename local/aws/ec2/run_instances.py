"""RunInstances: merges the request over its launch template; one pool, all or at least MinCount instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from local.aws.ec2 import xml_answers
from local.aws.ec2.instances import Instance
from local.aws.ec2.launching import LaunchSpecification
from local.aws.ec2.refusal import RequestRefused
from local.aws.ec2.tags import TagSpecifications
from local.aws.emulator import Emulator
from local.aws.fleet.request import specification_from_template
from local.aws.moto.state import LaunchTemplate, launch_subnet, launch_template

LAUNCH_KEYS = (
    "BlockDeviceMappings",
    "CapacityReservationSpecification",
    "EbsOptimized",
    "IamInstanceProfile",
    "ImageId",
    "InstanceType",
    "KeyName",
    "MetadataOptions",
    "Monitoring",
    "NetworkInterfaces",
    "Placement",
    "SecurityGroupIds",
    "UserData",
)
"""Parameters that replace the same key of the launch template."""


def run_instances(emulator: Emulator, region: str, parameters: Mapping[str, Any]) -> str:
    """The answer's XML. Idempotent by ClientToken. Raises RequestRefused."""
    token = str(parameters.get("ClientToken") or "")
    key = ("RunInstances", region, token)
    earlier = emulator.tokens.earlier_answer(key, parameters) if token else None
    if earlier is not None:
        return xml_answers.run_instances(earlier)
    instances = _launch(emulator, region, parameters)
    if token:
        ids = tuple(instance.instance_id for instance in instances)
        emulator.tokens.remember(key, parameters, instances, ids)
    return xml_answers.run_instances(instances)


def _launch(emulator: Emulator, region: str, parameters: Mapping[str, Any]) -> list[Instance]:
    backend = emulator.ec2(region)
    specification = _specification(emulator, backend, region, parameters)
    emulator.launcher.check(backend, specification)
    vcpus = emulator.catalogue.types[specification.instance_type].vcpus
    left = emulator.supply.bound(specification, vcpus).left
    number = min(int(parameters.get("MaxCount") or 1), left)
    if number < int(parameters.get("MinCount") or 1):
        raise RequestRefused(*emulator.supply.error(specification, vcpus))
    instances = emulator.launcher.launch(backend, specification, number)
    emulator.supply.use(specification, number)
    emulator.trail.launched(instances, by_fleet=False)
    return instances


def _specification(
    emulator: Emulator, backend: Any, region: str, parameters: Mapping[str, Any]
) -> LaunchSpecification:
    reference = parameters.get("LaunchTemplate")
    template = launch_template(backend, reference) if reference else LaunchTemplate("", 0, {})
    data = dict(template.data)
    data.update({key: parameters[key] for key in LAUNCH_KEYS if parameters.get(key)})
    interfaces = data.get("NetworkInterfaces") or [{}]
    zone = (parameters.get("Placement") or {}).get("AvailabilityZone") or f"{region}a"
    subnet_id = parameters.get("SubnetId") or interfaces[0].get("SubnetId")
    subnet = launch_subnet(backend, subnet_id, zone)
    tags = TagSpecifications.parse(parameters.get("TagSpecifications") or [])
    merged = tags.merged_over(data.get("TagSpecifications") or [])
    market = parameters.get("InstanceMarketOptions") or data.get("InstanceMarketOptions") or {}
    return replace(
        specification_from_template(emulator, replace(template, data=data), region, subnet),
        lifecycle="spot" if market.get("MarketType") == "spot" else "on-demand",
        instance_tags={**merged.instance, **(template.tags if reference else {})},
        volume_tags=merged.volume,
        client_token=str(parameters.get("ClientToken") or ""),
    )
