"""Permissions of a launch: one for each resource that it uses or creates, and one for each that it tags.

CreateFleet needs permissions for the fleet itself; its instances are started with RunInstances by the same role. When
RunInstances is denied, the fleet exists and has errors, as in EC2. Tags at creation also need CreateTags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from local.aws.iam.evaluation import Permission
from local.aws.iam.resources import Resources
from local.aws.moto.state import LaunchTemplate

Json = Mapping[str, Any]
Tags = Mapping[str, str]
MADE = ("instance", "volume", "network-interface")


def tags_by_kind(*specifications: Iterable[Json]) -> dict[str, dict[str, str]]:
    """Resource type -> tags; later lists win."""
    found: dict[str, dict[str, str]] = {}
    for row in (one for listed in specifications for one in listed):
        tags = {tag["Key"]: tag.get("Value") or "" for tag in row.get("Tags") or ()}
        found.setdefault(str(row.get("ResourceType")), {}).update(tags)
    return found


def making(
    action: str, resource: str, tags: Tags, base: Mapping[str, tuple[str, ...]]
) -> Iterator[Permission]:
    """Permissions to create a resource with these tags."""
    context = {**base, **requested(tags)}
    yield Permission(f"ec2:{action}", resource, context)
    if tags:
        yield Permission("ec2:CreateTags", resource, {**context, "ec2:CreateAction": (action,)})


def requested(tags: Tags) -> dict[str, tuple[str, ...]]:
    """The condition keys of tags in a request."""
    keys = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
    return {**keys, "aws:TagKeys": tuple(tags)} if tags else {}


def of_fleet(resources: Resources, parameters: Json) -> Iterator[Permission]:
    """Permissions of CreateFleet itself."""
    tags = tags_by_kind(parameters.get("TagSpecifications") or ())
    yield from making("CreateFleet", resources.arn("fleet"), tags.get("fleet", {}), resources.base)
    for template, overrides in templates_of(resources, parameters):
        yield from _used(resources, "CreateFleet", template, template.data, overrides)


def of_fleets_instances(resources: Resources, parameters: Json) -> Iterator[Permission]:
    """Permissions of the fleet's RunInstances call."""
    target = parameters.get("TargetCapacitySpecification") or {}
    spot = target.get("DefaultTargetCapacityType") == "spot"
    for template, overrides in templates_of(resources, parameters):
        written = template.data.get("TagSpecifications") or ()
        tags = tags_by_kind(written, parameters.get("TagSpecifications") or ())
        yield from _started(resources, template, template.data, overrides, tags, spot=spot)


def of_instances(resources: Resources, parameters: Json) -> Iterator[Permission]:
    """Permissions of RunInstances."""
    template = resources.template(parameters.get("LaunchTemplate") or {})
    data = {**(template.data if template else {}), **parameters}
    written = (template.data if template else {}).get("TagSpecifications") or ()
    tags = tags_by_kind(written, parameters.get("TagSpecifications") or ())
    spot = (data.get("InstanceMarketOptions") or {}).get("MarketType") == "spot"
    yield from _started(resources, template, data, [parameters], tags, spot=spot)


def templates_of(resources: Resources, parameters: Json) -> list[tuple[LaunchTemplate, list[Json]]]:
    """The existing templates, each with its overrides; the call itself refuses templates that do not exist."""
    found = []
    for config in parameters.get("LaunchTemplateConfigs") or ():
        template = resources.template(config.get("LaunchTemplateSpecification") or {})
        if template is not None:
            found.append((template, list(config.get("Overrides") or [{}])))
    return found


def _started(
    resources: Resources, template: LaunchTemplate | None, data: Json, overrides: Iterable[Json],
    tags: Mapping[str, Tags], *, spot: bool,
) -> Iterator[Permission]:  # fmt: skip
    yield from _used(resources, "RunInstances", template, data, overrides)
    for kind in (*MADE, *(("spot-instances-request",) if spot else ())):
        yield from making("RunInstances", resources.arn(kind), tags.get(kind, {}), resources.base)
    for role in resources.roles_of_profile(data.get("IamInstanceProfile") or {}):
        yield Permission("iam:PassRole", role, {"iam:PassedToService": ("ec2.amazonaws.com",)})


def _used(
    resources: Resources, action: str, template: LaunchTemplate | None, data: Json, overrides: Iterable[Json]
) -> Iterator[Permission]:  # fmt: skip
    """Permissions on existing resources that the launch uses."""
    if template is not None:
        tags = resources.template_tags(template.template_id)
        arn = resources.arn("launch-template", template.template_id)
        yield Permission(f"ec2:{action}", arn, {**resources.base, **resources.tagged(tags)})
    for kind, identity in sorted(_names(data, overrides)):
        yield Permission(f"ec2:{action}", resources.arn(kind, identity), dict(resources.base))


def _names(data: Json, overrides: Iterable[Json]) -> set[tuple[str, str]]:
    """(resource type, id) of all resources that a launch names."""
    interfaces = data.get("NetworkInterfaces") or ()
    groups = [
        *(data.get("SecurityGroupIds") or ()),
        *(g for one in interfaces for g in one.get("Groups") or ()),
    ]
    found = {("security-group", group) for group in groups}
    for one in (data, *overrides):
        found |= {("image", one.get("ImageId", "")), ("subnet", one.get("SubnetId", ""))}
    for device in data.get("BlockDeviceMappings") or ():
        found.add(("snapshot", (device.get("Ebs") or {}).get("SnapshotId", "")))
    placement = data.get("Placement") or {}
    found.add(("placement-group", placement.get("GroupId") or placement.get("GroupName") or ""))
    target = (data.get("CapacityReservationSpecification") or {}).get(
        "CapacityReservationTarget"
    ) or {}
    found |= {
        ("capacity-reservation", target.get("CapacityReservationId", "")),
        ("key-pair", data.get("KeyName", "")),
    }
    return {(kind, identity) for kind, identity in found if identity}
