"""Persistent volume claims and what decides where their volumes can be reached.

A claim either names its volume, and the volume says from which nodes it is reached, or it names a storage class,
which says where a volume may be made. Both say it as alternatives: each an AND of expressions on node labels, one of
them must hold. No alternatives means everywhere.
"""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression

LOST = "Lost"
"""Phase of a claim whose volume is gone."""

IMMEDIATE = "Immediate"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
"""Binding modes: the volume is made at once, or where the first pod goes."""

Alternatives = tuple[tuple[Expression, ...], ...]


class VolumeClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """One PersistentVolumeClaim."""

    uid: str
    namespace: str
    name: str
    phase: str = ""
    volume_name: str = ""
    storage_class: str | None = None
    """None: not said, so a default class may still come; empty: no class on purpose."""
    bound_completed: bool = False
    """The annotation that makes a binding definite; a volume name alone does not (POD-06)."""
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
    """CSI driver that attaches it, also for an in-tree source (SCH-92); empty for one that is not attached."""
    alternatives: Alternatives = ()
    """Labels of the nodes that reach it."""
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
    """Driver -> how many volumes the node attaches at most; a driver without a limit is not here (SCH-91)."""
