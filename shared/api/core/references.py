"""Which object an event is about (core/v1 ObjectReference)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.workloads.pods import Pod


def to_pod(pod: Pod) -> dict[str, str]:
    """A reference to this pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
    }


def to_node(node: Node) -> dict[str, str]:
    """A reference to this node."""
    return {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}


def to_machine(machine: Machine) -> dict[str, str]:
    """A reference to this Machine or NodeClaim."""
    return {
        "apiVersion": machine.api.api_version,
        "kind": machine.kind,
        "name": machine.name,
        "uid": machine.uid,
    }


def to_pool(pool: NodePool) -> dict[str, str]:
    """A reference to this Provisioner or NodePool."""
    return {
        "apiVersion": pool.api.api_version,
        "kind": pool.kind,
        "name": pool.name,
        "uid": pool.uid,
    }


def to_object(raw: Mapping[str, Any]) -> dict[str, str]:
    """A reference to a cluster-scoped object as read from the API server."""
    meta = raw["metadata"]
    return {
        "apiVersion": raw["apiVersion"],
        "kind": raw["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
