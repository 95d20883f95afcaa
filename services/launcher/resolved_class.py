"""What a node class stands for in AWS now: its images, subnets, security groups and instance profile. Pure."""

from __future__ import annotations

import msgspec

from shared.cloud.ec2.records import (
    CapacityReservation,
    Image,
    LaunchTemplate,
    SecurityGroup,
    Subnet,
)
from shared.domain.instance_types.types import InstanceType
from shared.domain.pools.nodepools import NodeClass
from shared.domain.requirements import Requirement, Requirements


class BootImage(msgspec.Struct, frozen=True):
    """An image, and what an instance type must be for it (LCH-08)."""

    image: Image
    requirements: Requirements

    def suits(self, kind: InstanceType) -> bool:
        """Does this type meet every requirement? A label that it does not have is absent (IT-45)."""
        return all(_meets(kind.labels.get(rule.key), rule) for rule in self.requirements)


def _meets(values: tuple[str, ...] | None, rule: Requirement) -> bool:
    return rule.accepts_absence if values is None else any(map(rule.has, values))


class BootImages(msgspec.Struct, frozen=True):
    """The images of a class, those to prefer first."""

    items: tuple[BootImage, ...] = ()

    def of(self, kind: InstanceType) -> str | None:
        """Id of the image that this type boots: the first that suits it (LCH-08). None if none does."""
        return next((item.image.id for item in self.items if item.suits(kind)), None)

    @property
    def ids(self) -> tuple[str, ...]:
        """Each once, in order of preference."""
        return tuple(dict.fromkeys(item.image.id for item in self.items))


class Resolved(msgspec.Struct, frozen=True):
    """Complete, ready to launch from."""

    node_class: NodeClass
    subnets: tuple[Subnet, ...]
    security_groups: tuple[SecurityGroup, ...]
    images: BootImages
    profile: str = ""
    launch_template: LaunchTemplate | None = None
    """v1alpha5: the user's own, which says everything but the subnets (T-07)."""
    reservations: tuple[CapacityReservation, ...] = ()
