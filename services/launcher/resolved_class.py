"""What a node class stands for in AWS now."""

from __future__ import annotations

import msgspec

from services.launcher.node_class.images import BootImages
from shared.cloud.records import CapacityReservation, LaunchTemplate, SecurityGroup, Subnet
from shared.domain.nodepools import NodeClass


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
