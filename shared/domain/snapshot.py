"""What one plan sees: an immutable picture of the cluster and the catalogue at one mirror generation."""

from __future__ import annotations

import msgspec

from shared.domain.instance_types import Catalogue
from shared.domain.machines import Machine
from shared.domain.nodepools import NodeClass, NodePool
from shared.domain.nodes import DaemonSet, Node
from shared.domain.pods import Pod

OfferingKey = tuple[str, str, str]
"""(capacity type, instance type, zone)."""


class Snapshot(msgspec.Struct, frozen=True):
    """Everything a plan may look at. ``pods`` are all pods that are not terminal."""

    generation: int
    pods: tuple[Pod, ...]
    nodes: tuple[Node, ...]
    machines: tuple[Machine, ...]
    pools: tuple[NodePool, ...]
    node_classes: tuple[NodeClass, ...]
    daemon_sets: tuple[DaemonSet, ...]
    catalogue: Catalogue
    unavailable: frozenset[OfferingKey] = frozenset()
