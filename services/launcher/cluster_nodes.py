"""All nodes of the cluster at one moment, for those who judge by what is there and by what is not.

A node that cannot be read (somebody's own kubelet) hides no other; it still counts as being there.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.api.nodes import parse_node
from shared.domain.nodes import Node
from shared.errors import InvalidObject
from shared.kube.client import Kube
from shared.kube.resources import NODES
from shared.log import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class ClusterNodes:
    """``readable`` nodes, and the provider ids of all."""

    readable: list[Node]
    provider_ids: frozenset[str]


async def cluster_nodes(kube: Kube) -> ClusterNodes:
    """A complete list."""
    readable, provider_ids = [], set()
    for raw in (await kube.list(NODES)).items:
        provider_ids.add(str((raw.get("spec") or {}).get("providerID") or ""))
        try:
            readable.append(parse_node(raw))
        except InvalidObject as error:
            log.warning("unreadable node", node=raw["metadata"]["name"], error=error.message)
    return ClusterNodes(readable, frozenset(provider_ids - {""}))
