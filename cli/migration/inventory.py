"""What a cluster, or files, hold of Karpenter: pools, classes, claims, nodes, its Deployments and its Lease."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cli.stack.cluster import listed
from shared.api.registry import identity, is_ours
from shared.cloud.ec2.records import Instance
from shared.kube.client import Kube
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    LEASES,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PROVISIONERS,
    Resource,
)

Json = Mapping[str, Any]
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
LEASE_NAME = "karpenter-leader-election"
"""The name is fixed in Karpenter; the namespace is Karpenter's own."""
KARPENTER = "karpenter"
DEFAULT_NAMESPACE = "kube-system"
POOLS = {"NodePool": NODE_POOLS, "Provisioner": PROVISIONERS}
CLASSES = {"EC2NodeClass": EC2_NODE_CLASSES, "AWSNodeTemplate": AWS_NODE_TEMPLATES}
CLAIMS = {"NodeClaim": NODE_CLAIMS, "Machine": MACHINES}
_BETA = (
    Resource("karpenter.sh", "v1beta1", "nodepools", "NodePool", False),
    Resource("karpenter.sh", "v1beta1", "nodeclaims", "NodeClaim", False),
    Resource("karpenter.k8s.aws", "v1beta1", "ec2nodeclasses", "EC2NodeClass", False),
)


@dataclass
class Inventory:
    """The objects as they are stored. ``instances``: by id; None when AWS was not read."""

    pools: list[Json] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    deployments: list[Json] = field(default_factory=list)
    leases: list[Json] = field(default_factory=list)
    instances: dict[str, Instance] | None = None
    live: bool = False
    """Read from a cluster, so that what is missing is missing there."""

    @property
    def empty(self) -> bool:
        return not (self.pools or self.classes or self.claims or self.deployments)

    @property
    def lease_place(self) -> tuple[str, str]:
        """(namespace, name) of Karpenter's Lease, also if it does not exist yet."""
        found = [*self.leases, *self.deployments]
        namespace = found[0]["metadata"].get("namespace") if found else None
        return str(namespace or DEFAULT_NAMESPACE), LEASE_NAME


def sorted_in(documents: Iterable[object]) -> Inventory:
    """The inventory of the objects in files; other kinds are left out."""
    found = Inventory()
    for one in documents:
        if not isinstance(one, Mapping) or not isinstance(one.get("metadata"), Mapping):
            continue
        kind = identity(one)[1]
        if is_ours(one) and kind in POOLS:
            found.pools.append(one)
        elif is_ours(one) and kind in CLASSES:
            found.classes.append(one)
        elif is_ours(one) and kind in CLAIMS:
            found.claims.append(one)
        elif kind == "Node":
            found.nodes.append(one)
        elif kind == "Deployment" and is_karpenter(one):
            found.deployments.append(one)
    return found


def is_karpenter(deployment: Json) -> bool:
    """Whether the Deployment is Karpenter's controller, by the label of its chart or by its name."""
    metadata = deployment["metadata"]
    labels = metadata.get("labels") or {}
    return bool(labels.get("app.kubernetes.io/name", metadata.get("name")) == KARPENTER)


async def read_cluster(kube: Kube) -> Inventory:
    """The inventory of a cluster. Raises TransientError: a list that breaks off says nothing."""
    documents: list[object] = []
    for resource in (*POOLS.values(), *CLASSES.values(), *CLAIMS.values(), NODES, DEPLOYMENTS):
        documents += [_named(one, resource) for one in await listed(kube, resource)]
    if not await listed(kube, NODE_POOLS):
        for resource in _BETA:
            documents += [_named(one, resource) for one in await listed(kube, resource)]
    found = sorted_in(documents)
    leases = await listed(kube, LEASES)
    found.leases = [one for one in leases if one["metadata"]["name"] == LEASE_NAME]
    found.live = True
    return found


def _named(document: Json, resource: Resource) -> Json:
    """Items of a list come without apiVersion and kind."""
    return {**document, "apiVersion": resource.api_version, "kind": resource.kind}
