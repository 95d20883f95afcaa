"""The permissions that a request needs, for every call that Dovetail makes.

A resource that does not exist needs no permission here, because the call itself refuses it. An action that is not
listed needs a permission of its own name on all resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from local.aws.capacity import zonal_shifts
from local.aws.http import protocol
from local.aws.iam import launches
from local.aws.iam.evaluation import Permission
from local.aws.iam.resources import Resources
from local.aws.moto import patches
from local.aws.moto.state import ACCOUNT_ID

Parameters = dict[str, Any]
Rule = Callable[[Resources, Parameters], Iterator[Permission]]
BATCHES = {
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessageBatch": "DeleteMessage",
}
"""Batch actions, which use the permission of the single action."""


def needed(resources: Resources, request: protocol.Request, path: str) -> list[Permission]:
    """All permissions that must be granted before the call does anything."""
    rule = _EC2.get(request.action) if request.service == "ec2" else None
    if rule is not None:
        return list(rule(resources, patches.parse_ec2(request.action, request.body)))
    action = f"{request.service}:{BATCHES.get(request.action, request.action)}"
    other = _OTHERS.get(request.service)
    found = list(other(resources, request, path, action)) if other else []
    return found or [Permission(action, "*", dict(resources.base))]


def needed_by_the_fleet(resources: Resources, request: protocol.Request) -> list[Permission]:
    """The permissions with which a fleet starts its instances."""
    parameters = patches.parse_ec2(request.action, request.body)
    return list(launches.of_fleets_instances(resources, parameters))


def _template(resources: Resources, parameters: Parameters) -> Iterator[Permission]:
    tags = launches.tags_by_kind(parameters.get("TagSpecifications") or ())
    arn = resources.arn("launch-template")
    yield from launches.making(
        "CreateLaunchTemplate", arn, tags.get("launch-template", {}), resources.base
    )


def _delete_template(resources: Resources, parameters: Parameters) -> Iterator[Permission]:
    names = ("LaunchTemplateId", "LaunchTemplateName")
    found = resources.template({name: parameters.get(name) for name in names})
    if found is not None:
        tags = resources.tagged(resources.template_tags(found.template_id))
        arn = resources.arn("launch-template", found.template_id)
        yield Permission("ec2:DeleteLaunchTemplate", arn, {**resources.base, **tags})


def _terminate(resources: Resources, parameters: Parameters) -> Iterator[Permission]:
    for identity in parameters.get("InstanceIds") or ():
        tags = resources.instance_tags(identity)
        if tags is not None:
            context = {**resources.base, **resources.tagged(tags)}
            yield Permission("ec2:TerminateInstances", resources.arn("instance", identity), context)


def _tag(resources: Resources, parameters: Parameters) -> Iterator[Permission]:
    """Permissions on existing resources. Dovetail tags only instances."""
    new = {tag["Key"]: tag.get("Value") or "" for tag in parameters.get("Tags") or ()}
    for identity in parameters.get("Resources") or ():
        tags = resources.instance_tags(identity) or {}
        context = {**resources.base, **resources.tagged(tags), **launches.requested(new)}
        yield Permission("ec2:CreateTags", resources.arn("instance", identity), context)


_EC2: dict[str, Rule] = {
    "CreateFleet": launches.of_fleet,
    "RunInstances": launches.of_instances,
    "CreateLaunchTemplate": _template,
    "DeleteLaunchTemplate": _delete_template,
    "TerminateInstances": _terminate,
    "CreateTags": _tag,
}


def _queue(
    resources: Resources, request: protocol.Request, path: str, action: str
) -> Iterator[Permission]:
    parameters = request.json_parameters() or request.query_parameters()
    url = str(parameters.get("QueueUrl") or parameters.get("QueueName") or "")
    arn = f"arn:aws:sqs:{request.region}:{ACCOUNT_ID}:{url.rpartition('/')[2]}"
    yield Permission(action, arn, dict(resources.base))


def _parameter(
    resources: Resources, request: protocol.Request, path: str, action: str
) -> Iterator[Permission]:
    """Permissions on a parameter. Parameters that AWS publishes belong to no account."""
    name = str(request.json_parameters().get("Name") or "")
    account = "" if name.startswith("/aws/service/") else ACCOUNT_ID
    yield Permission(
        action, f"arn:aws:ssm:{request.region}:{account}:parameter{name}", dict(resources.base)
    )


def _cluster(
    resources: Resources, request: protocol.Request, path: str, action: str
) -> Iterator[Permission]:
    name = path.rpartition("/")[2]
    yield Permission(
        action, f"arn:aws:eks:{request.region}:{ACCOUNT_ID}:cluster/{name}", dict(resources.base)
    )


def _managed_resource(
    resources: Resources, request: protocol.Request, path: str, action: str
) -> Iterator[Permission]:
    yield Permission(action, unquote(path.removeprefix(zonal_shifts.PATH)), dict(resources.base))


def _profile(
    resources: Resources, request: protocol.Request, path: str, action: str
) -> Iterator[Permission]:
    """Permissions on instance profiles, and on the role that is added to one."""
    parameters = request.query_parameters()
    name = parameters.get("InstanceProfileName")
    if name is None:
        return
    arn, tags = resources.profile(name) or (
        f"arn:aws:iam::{ACCOUNT_ID}:instance-profile/{name}",
        {},
    )
    if request.action == "CreateInstanceProfile":
        tags = {}
    new = {
        value: parameters.get(key.removesuffix("Key") + "Value", "")
        for key, value in parameters.items()
        if key.startswith("Tags.") and key.endswith(".Key")
    }
    yield Permission(action, arn, {**resources.tagged(tags, "iam"), **launches.requested(new)})
    if request.action == "AddRoleToInstanceProfile":
        role = f"arn:aws:iam::{ACCOUNT_ID}:role/{parameters.get('RoleName', '')}"
        yield Permission("iam:PassRole", role, {"iam:PassedToService": ("ec2.amazonaws.com",)})


def _group(
    resources: Resources, request: protocol.Request, path: str, action: str
) -> Iterator[Permission]:
    """Permissions on groups. Only actions that change a group support resource-level permissions."""
    if not request.action.startswith("Describe"):
        arn, tags = resources.group(request.query_parameters().get("AutoScalingGroupName", ""))
        yield Permission(action, arn, {**resources.base, **resources.tagged(tags, "autoscaling")})


_OTHERS: dict[str, Callable[[Resources, protocol.Request, str, str], Iterator[Permission]]] = {
    "sqs": _queue,
    "ssm": _parameter,
    "eks": _cluster,
    "arc-zonal-shift": _managed_resource,
    "iam": _profile,
    "autoscaling": _group,
}
