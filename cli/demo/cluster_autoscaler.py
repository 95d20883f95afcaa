"""What Cluster Autoscaler does with the same pods: the comparison line of the demo.

Cluster Autoscaler adds nodes of a fixed type to a group. Its estimate fills new nodes first-fit;
for identical pods that comes down to pods per node. The group is the one of the article that the
demo replays: xlarge nodes, m5.xlarge in front, at most 100 of them (ACC-06).

Overhead of the daemons: the requests that the two add-ons of every EKS node ship with, aws-node
25m (VPC CNI) and kube-proxy 100m of CPU, neither of memory. 3920m - 125m leaves 3795m: 15 pods of
250m, 3 pods of 1000m, none of 10000m; that is the article's 27, 34 and none. Any overhead up to
170m gives the same counts.

What may go wrong: real pods are not identical and real groups mix types; this is a rule, not a
replica.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeGroup:
    """A group of equal nodes: what one offers to pods, and how many there may be."""

    instance_type: str
    cpu_milli: int
    memory_bytes: int
    pods: int
    largest: int


@dataclass(frozen=True)
class DaemonOverhead:
    """What the daemons of one node take away from its pods."""

    cpu_milli: int
    memory_bytes: int
    pods: int


@dataclass(frozen=True)
class Estimate:
    """What the group grows to. ``pending`` pods never run."""

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

    Raises ValueError for a pod that asks for nothing at all of CPU and memory, or for a negative
    count.
    """
    if pods < 0 or min(cpu_milli, memory_bytes) < 0 or cpu_milli + memory_bytes == 0:
        raise ValueError("pods must request CPU or memory, and there cannot be fewer than none")
    per_node = min(
        _quotient(group.cpu_milli - daemons.cpu_milli, cpu_milli),
        _quotient(group.memory_bytes - daemons.memory_bytes, memory_bytes),
        group.pods - daemons.pods,
    )
    if per_node <= 0:
        return Estimate(nodes=0, pods_per_node=0, pending=pods)
    nodes = min(group.largest, -(-pods // per_node))
    return Estimate(nodes, min(per_node, pods), pending=max(0, pods - nodes * per_node))


def _quotient(room: int, request: int) -> int:
    """How many requests fit; a request of nothing always does."""
    return room // request if request else 2**31


def describe(result: Estimate, group: NodeGroup = XLARGE) -> str:
    """The line of the demo."""
    if result.nodes == 0:
        return f"Cluster Autoscaler, {group.instance_type} group: no node helps, the pods never run"
    text = (
        f"Cluster Autoscaler, {group.instance_type} group: {result.nodes} nodes, "
        f"up to {result.pods_per_node} pods on each"
    )
    return text if result.pending == 0 else f"{text}; {result.pending} pods never run"
