"""Read and write access to moto's own resources: backends per region, subnets, volumes, templates.

Nothing here changes moto's behaviour; ``patches`` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data
from moto.ec2.models import ec2_backends
from moto.ec2.models.elastic_block_store import VolumeAttachment
from moto.iam.models import iam_backends
from moto.moto_api._internal import mock_random

from local.aws.ec2.refusal import RequestRefused

ACCOUNT_ID: str = DEFAULT_ACCOUNT_ID


def new_id(prefix: str, digits: int = 17) -> str:
    """A new resource id, ``prefix`` and random hexadecimal digits. moto's generator draws all ids, so that one seed
    decides about all of them.
    """
    return f"{prefix}{mock_random.getrandbits(4 * digits):0{digits}x}"


def ec2(region: str) -> Any:
    """moto's EC2 backend of ``region``: network, templates, images, volumes, tags."""
    return ec2_backends[ACCOUNT_ID][region]


def iam() -> Any:
    """moto's IAM backend, which has no region."""
    return iam_backends[ACCOUNT_ID]["aws"]


def find_subnet(backend: Any, subnet_id: str) -> Any | None:
    """The subnet, or None."""
    for zone in backend.subnets.values():
        if subnet_id in zone:
            return zone[subnet_id]
    return None


def find_profile(reference: Mapping[str, Any]) -> Any | None:
    """The instance profile of {Name or Arn}, or None."""
    for profile in iam().instance_profiles.values():
        if profile.name == reference.get("Name") or profile.arn == reference.get("Arn"):
            return profile
    return None


def all_subnets(backend: Any) -> list[Any]:
    """Every subnet of the region."""
    return [subnet for zone in backend.subnets.values() for subnet in zone.values()]


def launch_subnet(backend: Any, subnet_id: str | None, zone: str) -> Any:
    """The named subnet, or the default subnet of ``zone`` when none is named. Raises RequestRefused."""
    if subnet_id:
        if (subnet := find_subnet(backend, subnet_id)) is not None:
            return subnet
        raise RequestRefused(
            "InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist"
        )
    for subnet in backend.subnets.get(zone, {}).values():
        if subnet.default_for_az:
            return subnet
    raise RequestRefused("MissingInput", f"No default subnet in availability zone {zone}")


def attach_volume(volume: Any, instance_id: str, device: str) -> None:
    """Mark ``volume`` as attached to one of our instances; moto needs only the instance's id."""
    volume.attachment = VolumeAttachment(
        volume, SimpleNamespace(id=instance_id), device, "attached"
    )


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    """One resolved version of a launch template."""

    template_id: str
    version: int
    data: Mapping[str, Any]

    @property
    def tags(self) -> dict[str, str]:
        """The tags that EC2 gives to instances of this template."""
        return {
            "aws:ec2launchtemplate:id": self.template_id,
            "aws:ec2launchtemplate:version": str(self.version),
        }


def launch_template(backend: Any, reference: Mapping[str, Any]) -> LaunchTemplate:
    """Resolve {LaunchTemplateId or LaunchTemplateName, Version}. Raises RequestRefused."""
    template_id = reference.get("LaunchTemplateId")
    name = reference.get("LaunchTemplateName")
    if bool(template_id) == bool(name):
        raise RequestRefused(
            "InvalidParameterCombination",
            "Give either LaunchTemplateId or LaunchTemplateName of the launch template.",
        )
    if name:
        template_id = backend.launch_template_name_to_ids.get(name)
    template = backend.launch_templates.get(template_id)
    if template is None:
        raise unknown_template(name, template_id)
    number = reference.get("Version") or "$Default"
    version = _version(template, str(number))
    return LaunchTemplate(str(template.id), int(version.number), version.data)


def unknown_template(name: str | None, template_id: str | None) -> RequestRefused:
    """EC2's error for a launch template that it does not know."""
    if name:
        return RequestRefused(
            "InvalidLaunchTemplateName.NotFoundException",
            f"The specified launch template, with template name {name}, does not exist.",
        )
    return RequestRefused(
        "InvalidLaunchTemplateId.NotFound",
        f"The specified launch template, with template ID {template_id}, does not exist.",
    )


def _version(template: Any, number: str) -> Any:
    if number in {"$Latest", "$Default"}:
        return template.get_version(number)
    if number.isdigit() and 1 <= int(number) <= len(template.versions):
        return template.versions[int(number) - 1]
    raise RequestRefused(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find launch template version {number} of {template.id}.",
    )


def reset() -> None:
    """Delete every resource of every moto service that was used."""
    BackendDict.reset()
    reset_model_data()
