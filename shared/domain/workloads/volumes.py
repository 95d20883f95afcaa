"""Records of persistent volume claims, and of what determines the nodes that can attach their volumes.

A bound claim names its volume, which has a node affinity; an unbound claim names a storage class, which has allowed
topologies. Both are stored as alternatives: each is an AND of expressions on node labels, and one of them must match.
No alternatives means any node.
"""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression

LOST = "Lost"
"""Phase of a claim whose volume was deleted."""

IMMEDIATE = "Immediate"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
"""Binding modes: the volume is created immediately, or for the node of the first pod."""

Alternatives = tuple[tuple[Expression, ...], ...]


class VolumeClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """One PersistentVolumeClaim."""

    uid: str
    namespace: str
    name: str
    phase: str = ""
    volume_name: str = ""
    storage_class: str | None = None
    """None: absent, so a default class may be assigned later; empty: explicitly no class."""
    bound_completed: bool = False
    """Whether the claim has the annotation of a completed binding; a volume name alone is not sufficient (POD-06)."""
    terminating: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Volume(msgspec.Struct, frozen=True, omit_defaults=True):
    """One PersistentVolume."""

    uid: str
    name: str
    driver: str = ""
    """The CSI driver that attaches it, also for an in-tree source (SCH-92); empty for a volume without attachment."""
    alternatives: Alternatives = ()
    """Required labels of the nodes that can attach it."""
    terminating: bool = False


class StorageClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """One StorageClass. ``provisioner`` is the CSI driver's name (SCH-92)."""

    uid: str
    name: str
    provisioner: str = ""
    binding_mode: str = IMMEDIATE
    allowed_topologies: Alternatives = ()


class CsiNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One CSINode, named like its node."""

    uid: str
    name: str
    limits: dict[str, int] = {}
    """Driver -> maximum number of attached volumes; drivers without a limit are missing (SCH-91)."""
