"""Seeded running clusters after a scale-in, for the consolidation benchmark.

The planner builds the cluster (with FewestNodes, as Karpenter would, or LowestCost) for a Zipf workload on the AWS
types up to a size, each machine at its cheapest offering. Then each deployment keeps a random part of its pods.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

from msgspec.structs import replace

from bench.inputs import workloads
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue, InstanceType
from shared.domain.machines.machine import (
    CONSOLIDATABLE,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Condition,
    Machine,
)
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Owner, Pod
from shared.solver.plan import PlannedMachine
from shared.solver.solve import SolverSettings, solve

NOW = 2_000_000_000.0
LONG_AGO = NOW - 30 * 86_400.0
_MOST_SHARE = 0.3
TRUE_CONDITIONS = (LAUNCHED, REGISTERED, INITIALIZED, CONSOLIDATABLE)


class Shape(NamedTuple):
    """How a cluster is built."""

    name: str
    packing: str
    kept: tuple[float, float]
    """Each deployment keeps a share of its pods between these."""
    most_cpu: int
    pods_per_node: float
    """About so many, before the scale-in."""


SHAPES = (
    Shape("greedy-built, 25-75 % kept", "FewestNodes", (0.25, 0.75), 32, 46.0),
    Shape("opt-built, 25-75 % kept", "LowestCost", (0.25, 0.75), 32, 30.0),
    Shape("greedy-built, 60-95 % kept", "FewestNodes", (0.60, 0.95), 32, 46.0),
    Shape("opt-built, 60-95 % kept", "LowestCost", (0.60, 0.95), 32, 30.0),
    Shape("greedy-built to 192 vCPU, 25-75 % kept", "FewestNodes", (0.25, 0.75), 192, 164.0),
)


def general_pool() -> NodePool:
    """On demand, every type of the catalogue, no budget."""
    return workloads.pool(
        requirements=workloads.general_requirements(),
        consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0,
    )


def types_up_to(catalogue: Catalogue, most_cpu: int) -> tuple[InstanceType, ...]:
    """The types of at most this many vCPU."""
    return tuple(t for t in catalogue.types if t.capacity.get("cpu", 0) <= most_cpu * 1000)


def cluster(shape: Shape, nodes: int, aws: Catalogue, seed: int = 1) -> Snapshot:
    """A cluster of about ``nodes`` nodes before the scale-in. All nodes stay, even those without pods."""
    types = types_up_to(aws, shape.most_cpu)
    pods = _in_proportion(workloads.zipf(round(nodes * shape.pods_per_node), seed=seed), nodes)
    empty = workloads.snapshot(pods, types, pools=(general_pool(),))
    empty = replace(empty, catalogue=Catalogue(aws.region, aws.generation, types))
    settings = SolverSettings(packing_policy=shape.packing)
    plan = solve(empty, now=NOW, settings=settings)
    placed = {uid: index for index, m in enumerate(plan.machines) for uid in m.pods}
    kinds = {t.name: t for t in types}
    bought = [running(m, f"node-{i:05d}", kinds) for i, m in enumerate(plan.machines)]
    kept = _kept(pods, shape.kept, random.Random(seed))
    bound = (
        replace(pod, node_name=bought[placed[pod.uid]][1].name, unschedulable=False,
                phase="Running", started_at=LONG_AGO)
        for pod in kept if pod.uid in placed
    )  # fmt: skip
    return replace(
        empty,
        pods=tuple(bound),
        nodes=tuple(node for _, node in bought),
        machines=tuple(machine for machine, _ in bought),
    )


def running(
    planned: PlannedMachine, name: str, kinds: dict[str, InstanceType], since: float = LONG_AGO
) -> tuple[Machine, Node]:
    """A planned machine, launched as its cheapest offering, and its node."""
    kind = kinds[planned.instance_type]
    zone = planned.offering.zone
    labels = {k: v[0] for k, v in kind.labels.items() if len(v) == 1} | planned.labels
    labels |= {
        keys.ZONE: zone,
        keys.CAPACITY_TYPE: planned.offering.capacity_type,
        keys.INSTANCE_TYPE: kind.name,
        keys.HOSTNAME: name,
        keys.NODE_POOL: planned.pool,
        keys.REGISTERED: "true",
        keys.INITIALIZED: "true",
    }
    allocatable = kind.allocatable()
    provider_id = f"aws:///{zone}/i-{name}"
    machine = Machine(
        uid=f"uid-{name}", name=f"machine-{name}", pool=planned.pool, generation_api=V1,
        created_at=since, labels=labels, node_class=planned.node_class, provider_id=provider_id,
        node_name=name, capacity=kind.capacity, allocatable=allocatable,
        conditions={c: Condition("True", c, "", since) for c in TRUE_CONDITIONS},
    )  # fmt: skip
    node = Node(
        uid=f"uid-{name}-node", name=name, provider_id=provider_id, created_at=since,
        labels=labels, ready=True, capacity=kind.capacity, allocatable=allocatable,
    )  # fmt: skip
    return machine, node


def _in_proportion(pods: list[Pod], nodes: int) -> list[Pod]:
    """The pods without rules that would need most nodes: in a small cluster these would decide its size."""
    sizes = Counter(pod.labels["app"] for pod in pods)
    return [
        replace(pod, spread=(), anti_affinity=())
        if sizes[pod.labels["app"]] > _MOST_SHARE * nodes * _per_node(pod)
        else pod
        for pod in pods
    ]


def _per_node(pod: Pod) -> float:
    """How many pods of its deployment one node may hold."""
    if pod.anti_affinity:
        return 1
    skews = [rule.max_skew for rule in pod.spread if rule.topology_key == keys.HOSTNAME]
    return min(skews, default=float("inf"))


def _kept(pods: list[Pod], share: tuple[float, float], draw: random.Random) -> list[Pod]:
    """Each deployment keeps a random part, drawn once per deployment, of random pods."""
    groups: dict[str, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(pod.labels["app"], []).append(pod)
    found: list[Pod] = []
    for app, members in groups.items():
        count = round(len(members) * draw.uniform(*share))
        owner = Owner("ReplicaSet", app, f"uid-{app}")
        chosen = sorted(draw.sample(range(len(members)), count))
        found += [replace(members[i], owner=owner) for i in chosen]
    return found
