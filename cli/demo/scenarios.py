"""The scenarios of ``dovetail demo``: their pods, their steps and the expected results.

The three bursts and the spread come from the article that the demo replays (ACC-02, ACC-04, ACC-05, ACC-07). Each ends
without pods, nodes and instances, as in the article. The scenarios of disruption are ACC-30, ACC-31, ACC-34 and ACC-79.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.demo.acts import blocked_drain, delete_node, expire, halve, interrupt, relabel
from shared.domain import labels
from shared.domain.labels import ON_DEMAND, SPOT
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.errors import ConfigurationError

if TYPE_CHECKING:
    from cli.demo.stage import Stage

MEBIBYTE = 2**20


@dataclass(frozen=True)
class Scenario:
    """One scenario. ``cpu_milli`` and ``memory_bytes`` are the requests of each pod."""

    name: str
    summary: str
    pods: int
    cpu_milli: int
    memory_bytes: int = 256 * MEBIBYTE
    most_nodes: int = 1
    least_nodes: int = 1
    act: Callable[[Stage], Awaitable[None]] | None = None
    """What is done to the running workload before it is scaled to zero."""
    spread_max_skew: int | None = None
    only_added_nodes: bool = False
    """Pods select the capacity type, so that none runs on the cluster's fixed node (seed: inflate-spot)."""
    capacity_type: str = SPOT
    """The only capacity type that the pool allows."""
    pool_changes: dict[str, Any] = field(default_factory=dict)
    """Merge patch of the pool's spec; None removes a field."""
    generation_api: str = V1ALPHA5
    """API generation of the applied manifests: Provisioner (v1alpha5) or NodePool (v1)."""
    batch_max_seconds: float = 10.0
    """BATCH_MAX_DURATION of the stack. Nominated nodes are not disrupted for twice this time."""
    timeout_seconds: float = 180.0


TWO_CPU_NODES = [
    {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [SPOT]},
    {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
    {"key": labels.AWS_PREFIX + "instance-category", "operator": "In", "values": ["c", "m", "r"]},
    {"key": labels.AWS_PREFIX + "instance-generation", "operator": "Gt", "values": ["2"]},
    {"key": labels.AWS_PREFIX + "instance-cpu", "operator": "In", "values": ["2"]},
]
"""Nodes so small that four pods need two of them, however kube-scheduler spreads the pods."""
BURST = Scenario(
    "burst-400",
    "400 pods of 250m / 256Mi run on at most 2 spot nodes, then all goes away",
    pods=400,
    cpu_milli=250,
    most_nodes=2,
)
NODE_DELETE = Scenario(
    "node-delete",
    "kubectl delete node: drained, instance terminated, pods run on a new node",
    pods=10,
    cpu_milli=1_000,
    act=delete_node,
    only_added_nodes=True,
)
CONSOLIDATE = replace(
    BURST,
    name="consolidate",
    summary="400 pods become 200: with consolidation on, fewer or cheaper nodes are left",
    act=halve,
    batch_max_seconds=4.0,
    only_added_nodes=True,
    capacity_type=ON_DEMAND,
    pool_changes={"consolidation": {"enabled": True}, "ttlSecondsAfterEmpty": None},
)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        BURST,
        Scenario(
            "burst-100",
            "100 pods of 1 CPU / 1Gi run on 1 node",
            pods=100,
            cpu_milli=1_000,
            memory_bytes=1024 * MEBIBYTE,
        ),
        Scenario(
            "burst-10",
            "10 pods of 10 CPU / 10Gi run on 1 node; no 4-vCPU group could ever run them",
            pods=10,
            cpu_milli=10_000,
            memory_bytes=10 * 1024 * MEBIBYTE,
        ),
        Scenario(
            "scale-to-zero",
            "a workload goes to 0: nodes, instances and Machines go after the TTL",
            pods=40,
            cpu_milli=500,
            memory_bytes=512 * MEBIBYTE,
            most_nodes=2,
        ),
        replace(
            NODE_DELETE,
            name="spot-interruption",
            summary="a spot node gets its notice: its pods run again on another offering",
            act=interrupt,
        ),
        NODE_DELETE,
        replace(
            BURST,
            name="hostname-spread",
            summary="400 pods with maxSkew 30 over hostnames run on 14 or 15 nodes",
            least_nodes=14,
            most_nodes=15,
            spread_max_skew=30,
            only_added_nodes=True,
        ),
        replace(
            BURST,
            name="nodepool",
            summary="the 400 pods with today's manifests: a NodePool and an EC2NodeClass",
            generation_api=V1,
        ),
        CONSOLIDATE,
        replace(
            CONSOLIDATE,
            name="consolidate-nodepool",
            summary="the same with a NodePool: consolidationPolicy WhenEmptyOrUnderutilized",
            pool_changes={
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    "consolidateAfter": "1s",
                }
            },
            generation_api=V1,
        ),
        Scenario(
            "drift",
            "the NodePool's template changes: its nodes are replaced one after another",
            pods=4,
            cpu_milli=850,
            least_nodes=2,
            most_nodes=2,
            act=relabel,
            batch_max_seconds=4.0,
            only_added_nodes=True,
            pool_changes={
                "disruption": {"budgets": [{"nodes": "1", "reasons": ["Drifted"]}]},
                "template": {"spec": {"requirements": TWO_CPU_NODES}},
            },
            generation_api=V1,
        ),
        replace(
            NODE_DELETE,
            name="expire",
            summary="ttlSecondsUntilExpired is over: another node is ready before the old one goes",
            act=expire,
            batch_max_seconds=4.0,
        ),
        replace(
            NODE_DELETE,
            name="pdb-blocked",
            summary="a PodDisruptionBudget holds a drain, an event says so; allowed, the drain goes on",
            act=blocked_drain,
            batch_max_seconds=4.0,
        ),
    )
}
DEFAULT_SCENARIO = "burst-400"


def find_scenario(name: str) -> Scenario:
    """The scenario of this name. Raises ConfigurationError with the known names."""
    if name not in SCENARIOS:
        raise ConfigurationError(f"no scenario {name!r}; there are: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
