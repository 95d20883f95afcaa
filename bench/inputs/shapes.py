"""Shapes of clusters whose planning must cost in proportion to the pods, each in any size.

Each shape once had, or could have, a part that grows with the square: rules of each deployment's own, preferences,
pools, existing nodes, pods without any place.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.inputs import workloads
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import InstanceType
from shared.domain.nodes import Node
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import AffinityTerm, Pod, PreferredTerm, SpreadConstraint

REPLICAS = 5
POOLS = 50
NODES = 2000

Types = tuple[InstanceType, ...]


def deployments_with_rules(count: int, seed: int = 1) -> list[Pod]:
    """Deployments of five pods: half with a spread over zones, the others spread, apart or together by host or zone."""
    draw = random.Random(seed)
    return [
        pod
        for i in range(count)
        for pod in workloads.replicas(
            REPLICAS,
            f"deployment-{i:05d}",
            draw.choice(workloads.CPU_MILLI),
            draw.choice(workloads.MEMORY_MIB),
            labels={"app": f"d{i}"},
            **_rule(i, {"app": f"d{i}"}),
        )
    ]


def _rule(i: int, own: dict[str, str]) -> dict[str, tuple[SpreadConstraint | AffinityTerm, ...]]:
    if i % 2:
        return {"spread": (SpreadConstraint(1, keys.ZONE, match_labels=own),)}
    host_rules: tuple[dict[str, tuple[SpreadConstraint | AffinityTerm, ...]], ...] = (
        {"spread": (SpreadConstraint(2, keys.HOSTNAME, match_labels=own),)},
        {"anti_affinity": (AffinityTerm(keys.HOSTNAME, match_labels=own),)},
        {"affinity": (AffinityTerm(keys.ZONE, match_labels=own),)},
    )
    return host_rules[i // 2 % len(host_rules)]


def karpenter_preferences(count: int = 4000) -> list[Pod]:
    """Karpenter's benchmark of preferences: pods of one size that prefer a zone, and no other one of them in their zone
    or on their host."""
    own = {"app": "nginx"}
    zone = (Expression(keys.ZONE, "In", (workloads.ZONES[0],)),)
    apart = (
        AffinityTerm(keys.ZONE, match_labels=own, weight=10),
        AffinityTerm(keys.HOSTNAME, match_labels=own, weight=5),
    )
    return workloads.replicas(
        count,
        "rather",
        100,
        128,
        labels=own,
        preferred_terms=(PreferredTerm(10, zone),),
        anti_affinity=apart,
    )


def preferences_in_turn(count: int = 4000, seed: int = 42) -> list[Pod]:
    """Pods with four preferred node-affinity terms of which only the last can be met: each is relaxed three times."""
    draw = random.Random(seed)
    zones = ("nowhere-1", "nowhere-2", "nowhere-3", workloads.ZONES[0])
    terms = tuple(
        PreferredTerm(100 - i, (Expression(keys.ZONE, "In", (zone,)),))
        for i, zone in enumerate(zones)
    )
    return [
        workloads.pod(
            f"rather-{i:06d}",
            draw.choice(workloads.CPU_MILLI),
            draw.choice(workloads.MEMORY_MIB),
            preferred_terms=terms,
        )
        for i in range(count)
    ]


def _plain(pods: Callable[[int], list[Pod]]) -> Callable[[int, Types], Snapshot]:
    return lambda count, types: workloads.snapshot(pods(count), types)


def _of_pools(count: int, types: Types) -> Snapshot:
    return workloads.backlog(types, count, 0, POOLS, hopeless_tenths=0)


def _on_nodes(count: int, types: Types) -> Snapshot:
    """Pods of twenty deployments, at most two of one on a host, and nodes with room for most of them."""
    pods = [
        pod
        for i in range(20)
        for pod in workloads.replicas(
            count // 20,
            f"deployment-{i:02d}",
            250,
            256,
            labels={"app": f"d{i}"},
            spread=(SpreadConstraint(2, keys.HOSTNAME, match_labels={"app": f"d{i}"}),),
        )
    ]
    return workloads.snapshot(pods, types, nodes=tuple(map(_empty_node, range(NODES))))


def _empty_node(i: int) -> Node:
    name = f"node-{i:04d}"
    size = {"cpu": 8000, "memory": 32 * workloads.GIB, "pods": 110}
    labels = {
        keys.HOSTNAME: name,
        keys.ZONE: workloads.ZONES[i % 3],
        keys.OS: "linux",
        keys.ARCH: "amd64",
    }
    return Node(f"uid-{name}", name, labels=labels, capacity=size, allocatable=size, ready=True)


SHAPES: dict[str, Callable[[int, Types], Snapshot]] = {
    "mix": _plain(workloads.karpenter_mix),
    "zipf": _plain(workloads.zipf),
    "deployments with rules": _plain(lambda count: deployments_with_rules(count // REPLICAS)),
    "preferences": _plain(karpenter_preferences),
    f"{POOLS} pools": _of_pools,
    f"{NODES} existing nodes": _on_nodes,
    "nothing has a place": lambda count, types: workloads.backlog(
        types, count, 500, 20, hopeless_tenths=10
    ),
}
"""Name -> (number of pods, types) -> snapshot."""
