"""Reads pools from the API server, for callers that need the current state and not the mirror's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.api.faults import Parsed
from shared.api.v1.node_pools import parse_node_pool
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.domain.pools.nodepools import NodePool
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODE_POOLS, PROVISIONERS, Resource

KINDS: dict[str, tuple[Resource, Callable[[Mapping[str, Any]], Parsed[NodePool]]]] = {
    GENERATIONS[V1ALPHA5].pool_kind: (PROVISIONERS, parse_provisioner),
    GENERATIONS[V1].pool_kind: (NODE_POOLS, parse_node_pool),
}
"""Pool kind -> its resource and parser."""


async def read_pool(kube: Kube, key: str) -> NodePool | None:
    """The pool of a key such as ``NodePool/default``; None when it is absent or unreadable. Raises TransientError."""
    kind, _, name = key.partition("/")
    if kind not in KINDS or not name:
        return None
    resource, parse = KINDS[kind]
    try:
        return parse(await kube.get(resource, name)).record
    except NotFound:
        return None


async def readable_pools(kube: Kube) -> dict[str, NodePool]:
    """All readable pools by key; the watcher reports an unreadable one on the pool itself. Raises TransientError."""
    found: dict[str, NodePool] = {}
    for resource, parse in KINDS.values():
        try:
            listed = (await kube.list(resource)).items
        except NotFound:
            continue  # a cluster may have the CRDs of one API generation only
        records = (parse(raw).record for raw in listed)
        found |= {pool.key: pool for pool in records if pool is not None}
    return found
