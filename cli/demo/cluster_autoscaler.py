"""Estimates how Cluster Autoscaler would scale for the same pods: the comparison line of the demo.

Cluster Autoscaler adds nodes of a fixed type to a group and fills new nodes by first fit; for identical pods this is a
number of pods per node. The group is that of the article that the demo replays: xlarge nodes, m5.xlarge first, at most
100 of them (ACC-06).

The daemon overhead is the sum of the default requests of the two add-ons of every EKS node: aws-node (VPC CNI) 25m and
kube-proxy 100m of CPU, no RAM. 3920m - 125m leaves 3795m: 15 pods of 250m, 3 pods of 1000m, none of 10000m. This gives
the article's 27, 34 and no nodes. Any overhead up to 170m gives the same numbers.

Limits of the estimate: real pods are not identical, and real groups mix instance types.
"""

from __future__ import annotations

from dataclasses import dataclass

INSTANCE_TYPE = "m5.xlarge"
CPU_MILLI = 3_920
# 16384 MiB less 7.5 % for the hypervisor, kube-reserved (11 Mi x 58 pods + 255 Mi) and
# 100 Mi for eviction (IT-35 does the same sum)
MEMORY_BYTES = 14_162 * 2**20
PODS = 58
GROUP_LIMIT = 100
DAEMON_CPU_MILLI = 125
DAEMON_PODS = 2


@dataclass(frozen=True)
class Estimate:
    """The resulting size of the group. ``pending``: pods that never run."""

    nodes: int
    pods_per_node: int
    pending: int


def estimate(
    pods: int, cpu_milli: int, memory_bytes: int, daemon_cpu_milli: int = DAEMON_CPU_MILLI
) -> Estimate:
    """How far the group grows for ``pods`` identical pods, by first fit.

    Raises ValueError for a pod that requests neither CPU nor memory, or for a negative number.
    """
    if pods < 0 or min(cpu_milli, memory_bytes) < 0 or cpu_milli + memory_bytes == 0:
        raise ValueError("pods must request CPU or memory, and no value may be negative")
    per_node = min(
        _quotient(CPU_MILLI - daemon_cpu_milli, cpu_milli),
        _quotient(MEMORY_BYTES, memory_bytes),
        PODS - DAEMON_PODS,
    )
    if per_node <= 0:
        return Estimate(nodes=0, pods_per_node=0, pending=pods)
    nodes = min(GROUP_LIMIT, -(-pods // per_node))
    return Estimate(nodes, min(per_node, pods), pending=max(0, pods - nodes * per_node))


def _quotient(available: int, request: int) -> int:
    """How many requests fit. A request of 0 does not limit the number."""
    return available // request if request else 2**31


def describe(result: Estimate) -> str:
    """The comparison line that the demo prints."""
    if result.nodes == 0:
        return f"Cluster Autoscaler, {INSTANCE_TYPE} group: no node helps, the pods never run"
    text = (
        f"Cluster Autoscaler, {INSTANCE_TYPE} group: {result.nodes} nodes, "
        f"up to {result.pods_per_node} pods on each"
    )
    return text if result.pending == 0 else f"{text}; {result.pending} pods never run"
