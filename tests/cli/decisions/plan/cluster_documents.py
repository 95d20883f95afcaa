"""A small v1 cluster as ``kubectl get -o yaml`` prints it: a pool, its class, types, and nodes with their pods."""

from __future__ import annotations

from typing import Any

from shared.api.hashes import class_hash_annotations, pool_hash_annotations
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.api.v1.node_pools import parse_node_pool
from shared.domain import labels as keys
from tests.shared.simulation.documents import (
    ZONES,
    Document,
    ec2_node_class,
    instance_type,
    node_pool,
    offering,
    pod,
)

LONG_AGO = "2020-01-01T00:00:00Z"
CONDITIONS = ("Launched", "Registered", "Initialized", "Consolidatable", "Ready")
PRICES = {"m5.large": 0.1, "m5.xlarge": 0.2, "m5.2xlarge": 0.4}
SIZES = {"m5.large": (2, "8Gi"), "m5.xlarge": (4, "16Gi"), "m5.2xlarge": (8, "32Gi")}


def pool(
    budgets: list[Document] | None = None, labels: Document | None = None, **changes: Any
) -> Document:
    """``changes``: of the spec, beside ``template``. Nothing is consolidated unless they say so."""
    made = node_pool(requirements=[on_demand(), *changes.pop("requirements", [])])
    disruption = {"consolidateAfter": "Never", "budgets": budgets or [{"nodes": "1"}]}
    made["spec"] |= {"disruption": disruption, **changes}
    if labels:
        made["spec"]["template"]["metadata"] = {"labels": labels}
    return made


def on_demand() -> Document:
    return {"key": keys.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}


def only_types(*names: str) -> Document:
    return {"key": keys.INSTANCE_TYPE, "operator": "In", "values": list(names)}


def types(prices: dict[str, float] = PRICES) -> list[Document]:
    return [
        instance_type(name, *SIZES[name], offerings=[offering(zone, price) for zone in ZONES])
        for name, price in prices.items()
    ]


def node(number: int, of: Document, kind: str = "m5.large", cpu: str = "1500m") -> list[Document]:
    """A NodeClaim, its Node, and one pod of a ReplicaSet with this request on it; none with an empty ``cpu``."""
    name = f"node-{number}"
    record = parse_node_pool(_complete(of)).record
    held_class = parse_ec2_node_class(_complete(ec2_node_class())).record
    assert record is not None
    assert held_class is not None
    labels = {
        keys.NODE_POOL: "default",
        keys.INSTANCE_TYPE: kind,
        keys.ZONE: ZONES[0],
        keys.CAPACITY_TYPE: "on-demand",
        keys.ARCH: "amd64",
        keys.OS: "linux",
        **((of["spec"]["template"].get("metadata") or {}).get("labels") or {}),
    }
    hashes = {
        **pool_hash_annotations("NodePool", record.hash),
        **class_hash_annotations("EC2NodeClass", held_class.hash),
    }
    cores, memory = SIZES[kind]
    size = {"cpu": str(cores), "memory": memory, "pods": "29"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"claim-{number}", "creationTimestamp": LONG_AGO, "labels": labels,
            "annotations": hashes, "uid": f"uid-claim-{number}",
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {
            "nodeName": name, "providerID": f"aws:///{ZONES[0]}/i-{number:017d}", "capacity": size,
            "allocatable": size,
            "conditions": [
                {"type": one, "status": "True", "reason": one, "lastTransitionTime": LONG_AGO}
                for one in CONDITIONS
            ],
        },
    }  # fmt: skip
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name, "creationTimestamp": LONG_AGO, "uid": f"uid-{name}",
            "labels": {
                **labels, keys.HOSTNAME: name, keys.REGISTERED: "true", keys.INITIALIZED: "true"
            },
        },
        "spec": {"providerID": f"aws:///{ZONES[0]}/i-{number:017d}"},
        "status": {"capacity": size, "allocatable": size},
    }  # fmt: skip
    return [claim, made, *([bound_pod(f"web-{number}", name, cpu)] if cpu else [])]


def bound_pod(name: str, on: str, cpu: str) -> Document:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    made = pod(name, meta={"ownerReferences": [owner]}, cpu=cpu, nodeName=on)
    return {**made, "status": {"phase": "Running", "startTime": LONG_AGO}}


def _complete(document: Document) -> Document:
    return {
        **document,
        "metadata": {"uid": "", "creationTimestamp": LONG_AGO, **document["metadata"]},
    }


def cluster(nodes: int = 3, of: Document | None = None, **changes: Any) -> list[Document]:
    """``changes``: of ``node``."""
    chosen = of or pool()
    made = [one for number in range(nodes) for one in node(number, chosen, **changes)]
    return [chosen, ec2_node_class(), *types(), *made]
