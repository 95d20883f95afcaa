"""All nodes of the cluster at one moment, for decisions by what exists and by what does not.

A node that cannot be read (somebody's own kubelet) hides no other; it still counts as existing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.api.core.nodes import parse_node
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
    """All nodes of the cluster. Raises TransientError: a list that breaks off says nothing."""
    listed = await kube.read_all(NODES, _read)
    provider_ids = {one.provider_id if isinstance(one, Node) else one for one in listed}
    readable = [one for one in listed if isinstance(one, Node)]
    return ClusterNodes(readable, frozenset(provider_ids - {""}))


def _read(raw: Mapping[str, Any]) -> Node | str:
    """The node; of one that cannot be read its provider id."""
    try:
        return parse_node(raw)
    except InvalidObject as error:
        log.warning("unreadable node", node=raw["metadata"]["name"], error=error.message)
        return str((raw.get("spec") or {}).get("providerID") or "")
