"""Scores: the choice between the nodes that fit a pod.

Plugins and weights follow Kubernetes 1.32's default profile where the local cluster has the input: TaintToleration 3,
NodeAffinity 2, PodTopologySpread 2, InterPodAffinity 2, NodeResourcesFit 1, NodeResourcesBalancedAllocation 1. Each
plugin gives 0..100 per node. Differences from the real scheduler: affinity preferences of placed pods do not count, and
images are the same everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from local.cluster.scheduling.filters import domain_counts, spread_counts
from local.cluster.scheduling.selectors import untolerated
from local.cluster.scheduling.shapes import PodShape
from local.cluster.scheduling.state import ClusterState, NodeState

HIGHEST = 100.0


def choose(
    shape: PodShape,
    nodes: Sequence[NodeState],
    state: ClusterState,
    strategy: str,
    rng: random.Random,
) -> NodeState:
    """The best node; one of several equal nodes is drawn at random, as in kube-scheduler."""
    if len(nodes) == 1:
        return nodes[0]
    totals = [resource_score(shape, node, strategy) for node in nodes]
    for weight, scores in _relative_scores(shape, nodes, state):
        totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
    highest = max(totals)
    best = [node for node, total in zip(nodes, totals, strict=True) if total >= highest - 1e-9]
    return best[0] if len(best) == 1 else rng.choice(best)


def resource_score(shape: PodShape, node: NodeState, strategy: str) -> float:
    """NodeResourcesFit (least or most allocated) plus NodeResourcesBalancedAllocation."""
    cpu_total = node.allocatable.get("cpu", 0)
    memory_total = node.allocatable.get("memory", 0)
    if not cpu_total or not memory_total:
        return 0.0
    cpu = (node.scoring_cpu + shape.scoring[0]) / cpu_total
    memory = (node.scoring_memory + shape.scoring[1]) / memory_total
    cpu, memory = cpu if cpu < 1 else 1.0, memory if memory < 1 else 1.0
    used = (cpu + memory) / 2
    fit = used if strategy == "most-allocated" else 1 - used
    balance = 1 - abs(cpu - memory) / 2
    return HIGHEST * (fit + balance)


def _relative_scores(
    shape: PodShape, nodes: Sequence[NodeState], state: ClusterState
) -> list[tuple[int, list[float]]]:
    """(weight, one score per node) of the plugins that compare nodes with each other."""
    scores: list[tuple[int, list[float]]] = []
    if any(node.taints for node in nodes):
        scores.append((3, _scaled([_soft_taints(shape, node) for node in nodes], invert=True)))
    if shape.preferred_nodes:
        scores.append((2, _scaled([_preferred_nodes(shape, node) for node in nodes])))
    soft = [constraint for constraint in shape.spread if not constraint.hard]
    for constraint in soft:
        counts = spread_counts(shape, state, constraint, soft)
        worst = max(counts.values(), default=0) + 1
        key = constraint.topology_key
        raw = [float(counts.get(node.labels.get(key, ""), worst)) for node in nodes]
        scores.append((2, _scaled(raw, invert=True)))
    if shape.preferred_pods:
        scores.append((2, _scaled(_preferred_pods(shape, nodes, state))))
    return scores


def _scaled(raw: list[float], *, invert: bool = False) -> list[float]:
    low, high = min(raw), max(raw)
    if low == high:
        return [HIGHEST if invert else 0.0] * len(raw)
    scaled = [HIGHEST * (value - low) / (high - low) for value in raw]
    return [HIGHEST - value for value in scaled] if invert else scaled


def _soft_taints(shape: PodShape, node: NodeState) -> float:
    soft = ("PreferNoSchedule",)
    return float(sum(untolerated([t], shape.tolerations, soft) is not None for t in node.taints))


def _preferred_nodes(shape: PodShape, node: NodeState) -> float:
    return float(sum(w for w, match in shape.preferred_nodes if match(node.labels, node.name)))


def _preferred_pods(
    shape: PodShape, nodes: Sequence[NodeState], state: ClusterState
) -> list[float]:
    totals = [0.0] * len(nodes)
    for term in shape.preferred_pods:
        counts = domain_counts(state, shape, term)
        for index, node in enumerate(nodes):
            totals[index] += term.weight * counts.get(node.labels.get(term.topology_key, ""), 0)
    return totals
