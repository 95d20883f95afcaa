"""What moving a node's pods costs, in the spec's own measure (DIS-15, DIS-16). Integers of 1/2^27."""

from __future__ import annotations

from collections.abc import Iterable

from shared.disruption.records import COST_UNIT
from shared.domain.workloads.pods import Pod, is_reschedulable

_MOST = 10 * COST_UNIT
_PRIORITY_UNITS = 4
"""priority / 2^25."""


def eviction_cost(pod: Pod) -> int:
    """1 + deletion cost / 2^27 + priority / 2^25, between -10 and 10."""
    cost = COST_UNIT + pod.deletion_cost + _PRIORITY_UNITS * pod.priority
    return max(-_MOST, min(_MOST, cost))


def disruption_cost(pods: Iterable[Pod]) -> int:
    """Of a node: 1 + what its reschedulable pods cost; a pod of negative cost is not worth a move."""
    return COST_UNIT + sum(max(0, eviction_cost(pod)) for pod in pods if is_reschedulable(pod))


def is_empty(pods: Iterable[Pod]) -> bool:
    """DIS-16: no reschedulable pod whose eviction costs anything. Daemons, mirrors and finished pods do not count."""
    return not any(is_reschedulable(pod) and eviction_cost(pod) > 0 for pod in pods)
