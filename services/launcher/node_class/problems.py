"""What may be wrong with a node class: a condition that is False, a reason, and a sentence (EC-16, EC-17)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

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


async def part(
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
