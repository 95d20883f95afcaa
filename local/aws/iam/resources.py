"""The emulator's resources in IAM's terms: ARNs, and the tags that conditions read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.autoscaling.models import autoscaling_backends

from local.aws.ec2.refusal import RequestRefused
from local.aws.emulator import Emulator
from local.aws.moto.state import ACCOUNT_ID, LaunchTemplate, find_profile, launch_template

OTHERS = frozenset({"image", "snapshot"})
"""Resources without an owner: their ARN names no account."""
Context = dict[str, tuple[str, ...]]


class Resources:
    """Resources of one region. EC2 resources must be read under the inventory's lock."""

    def __init__(self, emulator: Emulator, region: str) -> None:
        self._emulator = emulator
        self._region = region
        self.base: Context = {"aws:RequestedRegion": (region,)}

    def arn(self, kind: str, identity: str = "*") -> str:
        """The ARN of an EC2 resource. ``*``: a resource that does not exist yet."""
        account = "" if kind in OTHERS else ACCOUNT_ID
        return f"arn:aws:ec2:{self._region}:{account}:{kind}/{identity}"

    def tagged(self, tags: Mapping[str, str], service: str = "ec2") -> Context:
        """The condition keys of a resource's tags."""
        names = ("aws", service)
        return {
            f"{one}:ResourceTag/{key}": (value,) for one in names for key, value in tags.items()
        }

    def instance_tags(self, identity: str) -> dict[str, str] | None:
        """The tags of an instance; None for an unknown instance."""
        found = self._emulator.inventory.get(identity)
        return None if found is None else dict(found.tags)

    def template(self, reference: Mapping[str, Any]) -> LaunchTemplate | None:
        """The template; None for an unknown template or version."""
        named = {key: value for key, value in reference.items() if value}
        try:
            return launch_template(self._emulator.ec2(self._region), named)
        except RequestRefused:
            return None

    def template_tags(self, identity: str) -> dict[str, str]:
        found = self._emulator.ec2(self._region).launch_templates[identity]
        return {tag["key"]: tag["value"] for tag in found.get_tags()}

    def profile(self, name: str) -> tuple[str, dict[str, str]] | None:
        """ARN and tags of an instance profile; None for an unknown name."""
        found = find_profile({"Name": name})
        if found is None:
            return None
        return str(found.arn), {tag["Key"]: tag["Value"] for tag in found.tags}

    def roles_of_profile(self, reference: Mapping[str, str]) -> list[str]:
        """ARNs of the roles of instances with this profile."""
        profile = find_profile(reference)
        return [] if profile is None else [str(role.arn) for role in profile.roles]

    def group(self, name: str) -> tuple[str, dict[str, str]]:
        """ARN and tags of an auto scaling group."""
        found = autoscaling_backends[ACCOUNT_ID][self._region].autoscaling_groups.get(name)
        tags = {tag["Key"]: tag["Value"] for tag in found.tags} if found is not None else {}
        arn = f"arn:aws:autoscaling:{self._region}:{ACCOUNT_ID}:autoScalingGroup:0:autoScalingGroupName/{name}"
        return arn, tags
