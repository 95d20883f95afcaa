"""The scenarios of ``dovetail demo``: which pods, which steps, what must come out.

The three bursts and the spread are the article's own (seeds; spec/behaviour.md scenarios 2, 4, 5,
7). Each ends as the article does: nothing left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shared.domain.nodepools import V1, V1ALPHA5
from shared.errors import ConfigurationError


class Act(Enum):
    """What happens to a workload that runs, before it is scaled to zero."""

    NOTHING = "nothing"
    SPOT_INTERRUPTION = "spot interruption"
    NODE_DELETE = "node delete"


@dataclass(frozen=True)
class Scenario:
    """One story. ``cpu_milli`` and ``memory_bytes`` are requests of each pod."""

    name: str
    summary: str
    pods: int
    cpu_milli: int
    memory_bytes: int
    most_nodes: int
    least_nodes: int = 1
    act: Act = Act.NOTHING
    spread_max_skew: int | None = None
    only_added_nodes: bool = False
    """Pods ask for spot nodes, so that none runs on the cluster's fixed node (seed:
    inflate-spot).
    """
    generation_api: str = V1ALPHA5
    """Which generation of manifests is applied: Provisioner or NodePool."""
    timeout_seconds: float = 180.0


MEBIBYTE = 2**20
GIBIBYTE = 2**30

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "burst-400",
            "400 pods of 250m / 256Mi run on at most 2 spot nodes, then all goes away",
            pods=400,
            cpu_milli=250,
            memory_bytes=256 * MEBIBYTE,
            most_nodes=2,
        ),
        Scenario(
            "burst-100",
            "100 pods of 1 CPU / 1Gi run on 1 node",
            pods=100,
            cpu_milli=1_000,
            memory_bytes=GIBIBYTE,
            most_nodes=1,
        ),
        Scenario(
            "burst-10",
            "10 pods of 10 CPU / 10Gi run on 1 node; no 4-vCPU group could ever run them",
            pods=10,
            cpu_milli=10_000,
            memory_bytes=10 * GIBIBYTE,
            most_nodes=1,
        ),
        Scenario(
            "scale-to-zero",
            "a workload goes to 0: nodes, instances and Machines go after the TTL",
            pods=40,
            cpu_milli=500,
            memory_bytes=512 * MEBIBYTE,
            most_nodes=2,
        ),
        Scenario(
            "spot-interruption",
            "a spot node gets its notice: its pods run again on another offering",
            pods=10,
            cpu_milli=1_000,
            memory_bytes=256 * MEBIBYTE,
            most_nodes=1,
            act=Act.SPOT_INTERRUPTION,
            only_added_nodes=True,
        ),
        Scenario(
            "node-delete",
            "kubectl delete node: drained, instance terminated, pods run on a new node",
            pods=10,
            cpu_milli=1_000,
            memory_bytes=256 * MEBIBYTE,
            most_nodes=1,
            act=Act.NODE_DELETE,
            only_added_nodes=True,
        ),
        Scenario(
            "hostname-spread",
            "400 pods with maxSkew 30 over hostnames run on 14 or 15 nodes",
            pods=400,
            cpu_milli=250,
            memory_bytes=256 * MEBIBYTE,
            least_nodes=14,
            most_nodes=15,
            spread_max_skew=30,
            only_added_nodes=True,
        ),
        Scenario(
            "nodepool",
            "the 400 pods with today's manifests: a NodePool and an EC2NodeClass",
            pods=400,
            cpu_milli=250,
            memory_bytes=256 * MEBIBYTE,
            most_nodes=2,
            generation_api=V1,
        ),
    )
}
DEFAULT_SCENARIO = "burst-400"


def find_scenario(name: str) -> Scenario:
    """Raises ConfigurationError that lists the names."""
    try:
        return SCENARIOS[name]
    except KeyError as error:
        known = ", ".join(SCENARIOS)
        raise ConfigurationError(f"no scenario {name!r}; there are: {known}") from error
