"""The cluster's objects as ``dovetail drill`` reads them, and the planner's answer for them without some nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from cli.stack.cluster import listed
from shared.api.core.nodes import parse_node
from shared.api.core.pdbs import parse_pdb
from shared.api.core.pods import parse_pod
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.concurrency.clock import SystemClock
from shared.disruption.pod_blocks import ANNOTATED, holds, pdb_block
from shared.domain import labels as keys
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.workloads.pdbs import budgets_of
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.kube.client import Kube
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    DAEMON_SETS,
    EC2_NODE_CLASSES,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PDBS,
    PODS,
    PROVISIONERS,
    PVCS,
    PVS,
    STORAGE_CLASSES,
    Resource,
)
from shared.simulation.options import read_options
from shared.simulation.simulate import simulate

READ_KINDS = (
    NODES, PODS, PDBS, DAEMON_SETS, PVCS, PVS, STORAGE_CLASSES, PROVISIONERS, MACHINES, AWS_NODE_TEMPLATES,
    NODE_POOLS, NODE_CLAIMS, EC2_NODE_CLASSES,
)  # fmt: skip
Json = dict[str, Any]
Plan = Callable[[list[Json]], Json]
"""Kubernetes objects -> the planner's answer."""


@dataclass(frozen=True)
class Target:
    """A node that gets a notice, and its pods that need another node."""

    node: Node
    pods: tuple[Pod, ...]

    @property
    def instance(self) -> str:
        return provider_instance_id(self.node.provider_id)

    @property
    def zone(self) -> str:
        return self.node.labels.get(keys.ZONE, "")

    @property
    def instance_type(self) -> str:
        return self.node.labels.get(keys.INSTANCE_TYPE, "")

    @property
    def capacity_type(self) -> str:
        return self.node.labels.get(keys.CAPACITY_TYPE, "")


@dataclass(frozen=True)
class ClusterState:
    """All objects that the planner uses, by resource."""

    objects: dict[Resource, list[Json]]

    @classmethod
    async def read(cls, kube: Kube) -> ClusterState:
        """Read all objects. A cluster may have the kinds of only one generation. Raises the API server's error."""
        found: dict[Resource, list[Json]] = {}
        for resource in READ_KINDS:
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            found[resource] = [{**kind, **item} for item in await listed(kube, resource)]
        return cls(found)

    def targets(self) -> list[Target]:
        """Dovetail's nodes, sorted by name."""
        pods = [parse_pod(raw) for raw in self.objects[PODS]]
        nodes = sorted((parse_node(raw) for raw in self.objects[NODES]), key=lambda n: n.name)
        return [
            Target(node, tuple(p for p in pods if p.node_name == node.name and is_reschedulable(p)))
            for node in nodes
            if node.is_managed and not node.terminating and provider_instance_id(node.provider_id)
        ]

    def blocks(self, pods: Sequence[Pod], now: float) -> list[dict[str, str]]:
        """Pods whose eviction would be refused now, with the reason and the name of a blocking budget."""
        pdbs = [parse_pdb(raw) for raw in self.objects[PDBS]]
        found = []
        for pod in pods:
            why = ANNOTATED if holds(pod, now=now) else pdb_block(pod, pdbs)
            if why:
                names = [pdb.name for pdb in pdbs if pdb_block(pod, [pdb])]
                found.append({"pod": pod.key, "why": " ".join([why, *names])})
        return found

    def budgets(self, targets: Sequence[Target]) -> dict[str, list[str]]:
        """Names of the disruption budgets that cover a pod, by pod."""
        pdbs = [parse_pdb(raw) for raw in self.objects[PDBS]]
        pods = (pod for target in targets for pod in target.pods)
        return {pod.key: [pdb.name for pdb in budgets_of(pod, pdbs)] for pod in pods}

    def narrow(self, pods: Sequence[Pod]) -> list[Json]:
        """Budgets that allow some of these pods to be evicted now, but not all of them at once."""
        found = []
        for pdb in (parse_pdb(raw) for raw in self.objects[PDBS]):
            covered = sum(bool(budgets_of(pod, [pdb])) for pod in pods)
            if 0 < pdb.allowed < covered:
                found.append({"budget": pdb.key, "allows": pdb.allowed, "pods": covered})
        return found

    def without(self, targets: Sequence[Target]) -> list[Json]:
        """The objects without these nodes and their machines; the pods of the nodes are pending."""
        names = {target.node.name for target in targets}
        moved = {pod.uid for target in targets for pod in target.pods}
        providers = {target.node.provider_id for target in targets}
        found: list[Json] = []
        for resource, items in self.objects.items():
            for raw in items:
                if resource is NODES and raw["metadata"]["name"] in names:
                    continue
                if (raw.get("status") or {}).get("providerID") in providers:
                    continue
                if resource is not PODS:
                    found.append(raw)
                elif raw["metadata"]["uid"] in moved:
                    found.append(_waiting(raw))
                elif raw.get("spec", {}).get("nodeName") not in names:
                    found.append(raw)
        return found


def plan_here(documents: list[Json]) -> Json:
    """The planner's answer by the bundled catalogue."""
    settings = read_options({}).settings
    clock = SystemClock()
    return simulate(documents, catalogue=bundled_catalogue, settings=settings, clock=clock).answer


def _waiting(pod: Json) -> Json:
    """The pod that its controller would create in its place: pending and unschedulable."""
    waiting = copy.deepcopy(pod)
    waiting["spec"].pop("nodeName", None)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting["status"] = {"phase": "Pending", "conditions": [condition]}
    return waiting


def chosen(targets: Sequence[Target], percent: float, seed: int) -> list[Target]:
    """This percentage of the targets, at least one, chosen by the seed."""
    if percent >= 100 or not targets:
        return list(targets)
    number = max(1, round(len(targets) * percent / 100))
    places = Random(seed).sample(range(len(targets)), number)
    return [targets[place] for place in sorted(places)]


def rehearse(cluster: ClusterState, targets: Sequence[Target], plan: Plan) -> Json:
    """The report of a simulation. It has no times, as nothing is interrupted."""
    pods = [pod for target in targets for pod in target.pods]
    answer = plan(cluster.without(targets))
    ours = {pod.key for pod in pods}
    homeless = [
        {"pod": one["pod"], "why": one["reason"]}
        for one in answer["unschedulable"]
        if one["pod"] in ours
    ]
    blocked, narrow = cluster.blocks(pods, SystemClock().now()), cluster.narrow(pods)
    machines = [one["offering"]["instanceType"] for one in answer["machines"]]
    return report_of(
        targets, {}, simulated=True, moved=len(pods) - len(homeless), stayed=[], blocked=blocked,
        narrow=narrow, homeless=homeless, machines=machines, placedAfterSeconds=None,
    )  # fmt: skip


def report_of(
    targets: Sequence[Target],
    emptied: dict[str, float],
    *,
    notice_seconds: float = 120.0,
    **rest: Any,
) -> Json:
    """The report as JSON. ``emptied``: node name -> seconds from the notice until its last pod had left."""
    nodes: list[Json] = []
    for target in targets:
        after = emptied.get(target.node.name)
        nodes.append(
            {
                "node": target.node.name,
                "instanceId": target.instance,
                "instanceType": target.instance_type,
                "zone": target.zone,
                "pods": len(target.pods),
                "emptyAfterSeconds": after,
                "spareSeconds": None if after is None else notice_seconds - after,
            }
        )
    spare = [notice_seconds - after for after in emptied.values()]
    late = len(emptied) < len(targets)
    return {**rest, "nodes": nodes, "spareSeconds": None if late else min(spare, default=None)}
