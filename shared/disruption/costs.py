"""Disruption cost of a node, from its pods' deletion costs and priorities (DIS-15, DIS-16), in units of 1/2^27."""

from __future__ import annotations

from collections.abc import Iterable

from shared.disruption.records import COST_UNIT
from shared.domain.workloads.pods import Pod, is_reschedulable

_MOST = 10 * COST_UNIT
_PRIORITY_UNITS = 4
"""A priority counts 1/2^25, which is four units."""


def eviction_cost(pod: Pod) -> int:
    """1 + deletion cost / 2^27 + priority / 2^25, limited to -10..10."""
    cost = COST_UNIT + pod.deletion_cost + _PRIORITY_UNITS * pod.priority
    return max(-_MOST, min(_MOST, cost))


def disruption_cost(pods: Iterable[Pod]) -> int:
    """A node's cost: 1 + the eviction costs of its reschedulable pods; negative ones count as zero."""
    return COST_UNIT + sum(max(0, eviction_cost(pod)) for pod in pods if is_reschedulable(pod))


def is_empty(pods: Iterable[Pod]) -> bool:
    """True without reschedulable pods of positive eviction cost (DIS-16): daemon, mirror and finished pods are none."""
    return not any(is_reschedulable(pod) and eviction_cost(pod) > 0 for pod in pods)
