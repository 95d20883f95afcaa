"""Looks up everything that a node class selects in AWS, all parts at once, and says which parts fail (EC-15..17).

A part that finds nothing, or may not look, becomes a ``Problem`` and the others are looked up all the same: a user
mends a class once. What may go wrong beyond that (EC2 throttles, no network) is raised: nothing is known then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from services.launcher import images, profiles
from services.launcher.images import Images, described
from services.launcher.profiles import Profiles
from shared.cloud.records import Image, SecurityGroup, Subnet
from shared.cloud.session import Cloud
from shared.cloud.user_data import LIMIT_BYTES
from shared.domain.nodepools import V1, NodeClass, SelectorTerm
from shared.errors import InvalidObject, Unauthorized

SUBNETS_READY = "SubnetsReady"
SECURITY_GROUPS_READY = "SecurityGroupsReady"
AMIS_READY = "AMIsReady"
INSTANCE_PROFILE_READY = "InstanceProfileReady"
VALIDATION_SUCCEEDED = "ValidationSucceeded"
"""Conditions of EC-16."""
BOOTABLE = ("AL2", "AL2023", "Custom")
"""Families whose first boot we can write."""
Found = TypeVar("Found")


class Problem(msgspec.Struct, frozen=True):
    """Why a part of a class is not ready: the condition that is False, its reason, and a sentence."""

    condition: str
    reason: str
    message: str


class Findings(msgspec.Struct, frozen=True):
    """What a class stands for in AWS now. A part with a problem may be empty."""

    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    images: dict[str, Image] = {}
    """Kubernetes architecture -> image."""
    profile: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass
class Discovery:
    """Asks EC2, SSM and IAM."""

    cloud: Cloud
    images: Images
    profiles: Profiles

    async def look(self, node_class: NodeClass, k8s: str) -> Findings:
        """Everything of this class, for this Kubernetes version. Raises TransientError."""
        problems = problems_of(node_class)
        subnets, groups, found, profile = await asyncio.gather(
            _part(self._subnets(node_class), SUBNETS_READY, "SubnetsNotFound", problems),
            _part(
                self._groups(node_class), SECURITY_GROUPS_READY, "SecurityGroupsNotFound", problems
            ),
            _part(self.images.find(node_class, k8s), AMIS_READY, images.NOT_FOUND, problems),
            _part(
                self.profiles.resolve(node_class),
                INSTANCE_PROFILE_READY,
                profiles.NOT_FOUND,
                problems,
            ),
        )
        return Findings(
            tuple(subnets or ()),
            tuple(groups or ()),
            found or {},
            profile or "",
            tuple(sorted(problems, key=lambda problem: (problem.condition, problem.message))),
        )

    async def _subnets(self, node_class: NodeClass) -> list[Subnet]:
        found = await self.cloud.ec2.subnets(node_class.subnet_terms)
        if not found:
            raise InvalidObject(
                f"no subnet has {_shown(node_class.subnet_terms)}; tag the subnets or mend the selector",
                field=_field(node_class, "subnetSelector"),
            )
        return found

    async def _groups(self, node_class: NodeClass) -> list[SecurityGroup]:
        if node_class.launch_template:
            return []  # T-07: the template names them
        found = await self.cloud.ec2.security_groups(node_class.security_group_terms)
        if not found:
            raise InvalidObject(
                f"no security group has {_shown(node_class.security_group_terms)}; "
                "tag a group or mend the selector",
                field=_field(node_class, "securityGroupSelector"),
            )
        return found


async def _part(
    look: Awaitable[Found], condition: str, reason: str, problems: list[Problem]
) -> Found | None:
    """What was found, or None with the problem added."""
    try:
        return await look
    except InvalidObject as error:
        named = str(error.context.get("reason") or reason)
        problems.append(Problem(condition, named, str(error)))
    except Unauthorized as error:
        problems.append(Problem(condition, "Unauthorized", error.message))
    return None


def problems_of(node_class: NodeClass) -> list[Problem]:
    """What is wrong with a class whatever AWS holds: settings that no machine could be started with."""
    found = []
    size = len(node_class.user_data.encode(errors="replace"))
    if size > LIMIT_BYTES:
        text = (
            f"spec.userData: has {size} bytes, EC2 takes {LIMIT_BYTES}; download most of it at boot"
        )
        found.append(Problem(VALIDATION_SUCCEEDED, "UserDataSizeLimitExceeded", text))
    family = node_class.ami_family
    if family not in BOOTABLE:
        text = (
            f"spec.amiFamily: {family} cannot be booted by this version yet; use one of "
            f"{', '.join(BOOTABLE)} (Custom takes userData as it is)"
        )
        found.append(Problem(AMIS_READY, "UnsupportedFamily", text))
    if node_class.launch_template:
        text = (
            "spec.launchTemplate: a launch template of your own cannot be used by this version yet"
        )
        found.append(Problem(VALIDATION_SUCCEEDED, "UnsupportedLaunchTemplate", text))
    return found


def _field(node_class: NodeClass, name: str) -> str:
    return f"spec.{name}Terms" if node_class.generation_api == V1 else f"spec.{name}"


def _shown(terms: Iterable[SelectorTerm]) -> str:
    return "; nor ".join(described(term) for term in terms) or "no selector"
