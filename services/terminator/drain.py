"""Which pods to evict next: pure (TRM-06, TRM-07, TRM-09)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from shared.domain.expressions import NO_SCHEDULE, Taint
from shared.domain.pods import Pod

CORDON = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)
CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class DrainStep(msgspec.Struct, frozen=True):
    """``evict`` now; ``held`` refuse to go (do-not-evict); ``left`` still have to leave in all."""

    evict: tuple[Pod, ...]
    held: tuple[Pod, ...]
    left: int


def stays(pod: Pod) -> bool:
    """TRM-06: pods that a drain passes by: finished, mirrors, and those that tolerate the cordon."""
    if pod.is_terminal or pod.is_mirror:
        return True
    return any(toleration.tolerates(CORDON) for toleration in pod.tolerations)


def next_evictions(pods: Iterable[Pod]) -> DrainStep:
    """[5] Two tiers: critical pods wait until all others are gone. Leaving pods are waited for."""
    leaving = [pod for pod in pods if not stays(pod)]
    ordinary = [pod for pod in leaving if pod.priority_class not in CRITICAL]
    tier = ordinary or leaving
    held = tuple(pod for pod in tier if pod.do_not_disrupt == "true" and not pod.terminating)
    evict = tuple(pod for pod in tier if not pod.terminating and pod not in held)
    return DrainStep(evict, held, len(leaving))
