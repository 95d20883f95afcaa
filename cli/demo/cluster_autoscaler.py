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


@dataclass(frozen=True)
class NodeGroup:
    """A group of equal nodes: allocatable resources of one node, and the maximum size of the group."""

    instance_type: str
    cpu_milli: int
    memory_bytes: int
    pods: int
    largest: int


@dataclass(frozen=True)
class DaemonOverhead:
    """Resources that the daemons of one node use."""

    cpu_milli: int
    memory_bytes: int
    pods: int


@dataclass(frozen=True)
class Estimate:
    """The resulting size of the group. ``pending``: pods that never run."""

    nodes: int
    pods_per_node: int
    pending: int


XLARGE = NodeGroup(
    instance_type="m5.xlarge",
    cpu_milli=3_920,
    # 16384 MiB less 7.5 % for the hypervisor, kube-reserved (11 Mi x 58 pods + 255 Mi) and
    # 100 Mi for eviction (IT-35 does the same sum)
    memory_bytes=14_162 * 2**20,
    pods=58,
    largest=100,
)
EKS_DAEMONS = DaemonOverhead(cpu_milli=125, memory_bytes=0, pods=2)


def estimate(
    pods: int,
    cpu_milli: int,
    memory_bytes: int,
    group: NodeGroup = XLARGE,
    daemons: DaemonOverhead = EKS_DAEMONS,
) -> Estimate:
    """How far ``group`` grows for ``pods`` identical pods, by first fit.

    Raises ValueError for a pod that requests neither CPU nor memory, or for a negative number.
    """
    if pods < 0 or min(cpu_milli, memory_bytes) < 0 or cpu_milli + memory_bytes == 0:
        raise ValueError("pods must request CPU or memory, and no value may be negative")
    per_node = min(
        _quotient(group.cpu_milli - daemons.cpu_milli, cpu_milli),
        _quotient(group.memory_bytes - daemons.memory_bytes, memory_bytes),
        group.pods - daemons.pods,
    )
    if per_node <= 0:
        return Estimate(nodes=0, pods_per_node=0, pending=pods)
    nodes = min(group.largest, -(-pods // per_node))
    return Estimate(nodes, min(per_node, pods), pending=max(0, pods - nodes * per_node))


def _quotient(available: int, request: int) -> int:
    """How many requests fit. A request of 0 does not limit the number."""
    return available // request if request else 2**31


def describe(result: Estimate, group: NodeGroup = XLARGE) -> str:
    """The comparison line that the demo prints."""
    if result.nodes == 0:
        return f"Cluster Autoscaler, {group.instance_type} group: no node helps, the pods never run"
    text = (
        f"Cluster Autoscaler, {group.instance_type} group: {result.nodes} nodes, "
        f"up to {result.pods_per_node} pods on each"
    )
    return text if result.pending == 0 else f"{text}; {result.pending} pods never run"
