"""What may be wrong with a node class: a condition that is False, a reason, and a sentence (EC-16, EC-17)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from services.launcher.resolved_class import BootImage
from shared.cloud.ec2.records import (
    CapacityReservation,
    LaunchTemplate,
    PlacementGroup,
    SecurityGroup,
    Subnet,
)
from shared.errors import InvalidObject, Unauthorized

SUBNETS_READY = "SubnetsReady"
SECURITY_GROUPS_READY = "SecurityGroupsReady"
AMIS_READY = "AMIsReady"
INSTANCE_PROFILE_READY = "InstanceProfileReady"
PLACEMENT_GROUP_READY = "PlacementGroupReady"
CAPACITY_RESERVATIONS_READY = "CapacityReservationsReady"
VALIDATION_SUCCEEDED = "ValidationSucceeded"
"""Conditions of EC-16."""
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
    images: tuple[BootImage, ...] = ()
    """Newest first, deprecated ones last."""
    profile: str = ""
    launch_template: LaunchTemplate | None = None
    """v1alpha5: the user's own (T-07)."""
    problems: tuple[Problem, ...] = ()
    reservations: tuple[CapacityReservation, ...] = ()
    group: PlacementGroup | None = None


async def part(
    search: Awaitable[Found], condition: str, reason: str, problems: list[Problem]
) -> Found | None:
    """What was found, or None with the problem added."""
    try:
        return await search
    except InvalidObject as error:
        named = str(error.context.get("reason") or reason)
        problems.append(Problem(condition, named, str(error)))
    except Unauthorized as error:
        problems.append(Problem(condition, "Unauthorized", error.message))
    return None
