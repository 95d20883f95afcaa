"""NodePools as users write them, for tests."""

from __future__ import annotations

from typing import Any

from shared.api.v1.node_pools import parse_node_pool
from shared.domain.pools.nodepools import NodePool
from tests.shared.api.conftest import document

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def pool_document(
    metadata: Any = None, template: Any = None, status: Any = None, **spec: Any
) -> dict[str, Any]:
    """A valid NodePool but for what is given."""
    wanted = {"requirements": [], "nodeClassRef": REFERENCE, **(template or {})}
    return document({"template": {"metadata": metadata, "spec": wanted}, **spec}, status)


def parsed(raw: dict[str, Any]) -> NodePool:
    return parse_node_pool(raw).require("NodePool/one")


def faults(raw: dict[str, Any]) -> list[str]:
    found = parse_node_pool(raw)
    assert (found.record is None) == bool(found.faults)
    return [str(fault) for fault in found.faults]
