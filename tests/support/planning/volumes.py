"""Claims, volumes and storage classes for tests: name what the test is about, the rest is ordinary."""

from __future__ import annotations

from typing import Any

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.workloads.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    CsiNode,
    StorageClass,
    Volume,
    VolumeClaim,
)

EBS = "ebs.csi.aws.com"


def in_zones(*zones: str) -> tuple[Expression, ...]:
    """One alternative: any of these zones."""
    return (Expression(keys.ZONE, "In", zones),)


def make_claim(name: str = "data", volume: str = "", **changes: Any) -> VolumeClaim:
    """Bound to ``volume``, or waiting for its first pod with the class ``gp3``."""
    fields: dict[str, Any] = {
        "uid": f"claim-{name}",
        "namespace": "default",
        "phase": "Bound" if volume else "Pending",
        "volume_name": volume,
        "bound_completed": bool(volume),
        "storage_class": "gp3",
    }
    return VolumeClaim(name=name, **{**fields, **changes})


def make_volume(name: str, *zones: str, **changes: Any) -> Volume:
    """An EBS volume that is reached from each of these zones."""
    fields: dict[str, Any] = {
        "uid": f"volume-{name}",
        "driver": EBS,
        "alternatives": tuple(in_zones(zone) for zone in zones),
    }
    return Volume(name=name, **{**fields, **changes})


def make_storage_class(name: str = "gp3", *zones: str, **changes: Any) -> StorageClass:
    """EBS volumes, made where the first pod goes, in these zones or anywhere."""
    fields: dict[str, Any] = {
        "uid": f"storage-class-{name}",
        "provisioner": EBS,
        "binding_mode": WAIT_FOR_FIRST_CONSUMER,
        "allowed_topologies": (in_zones(*zones),) if zones else (),
    }
    return StorageClass(name=name, **{**fields, **changes})


def make_csi_node(name: str = "node-1", **limits: int) -> CsiNode:
    """A node that attaches this many EBS volumes."""
    return CsiNode(uid=f"csi-{name}", name=name, limits={EBS: limits.get("ebs", 2)})
