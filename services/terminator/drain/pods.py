"""Which pods of a draining node to evict, delete or wait for next: pure (TRM-06, TRM-07, TRM-09, TRM-11)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from shared.disruption.pod_blocks import holds
from shared.domain.nodes import CORDONED, DISRUPTED
from shared.domain.pools.generations import Generation
from shared.domain.workloads.pods import Pod

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
STUCK_SECONDS = 60.0
"""A pod this long past its own deletion time is not waited for: its kubelet is gone (TRM-06)."""
LEAST_GRACE_SECONDS = 1


class Deletion(msgspec.Struct, frozen=True):
    """A pod that is deleted and not evicted, because the drain's deadline is near."""

    pod: Pod
    grace_seconds: int


class DrainStep(msgspec.Struct, frozen=True):
    """``evict`` and ``delete`` now; ``held`` refuse to go (do-not-disrupt); ``left`` still have to leave in all."""

    evict: tuple[Pod, ...]
    delete: tuple[Deletion, ...]
    held: tuple[Pod, ...]
    left: int


def stays(pod: Pod, api: Generation, *, now: float) -> bool:
    """A drain leaves these alone: finished, mirrors, stuck ones, those that tolerate the node's taint (TRM-06)."""
    if pod.is_terminal or pod.is_mirror:
        return True
    if pod.terminating and pod.terminate_at and now - pod.terminate_at > STUCK_SECONDS:
        return True
    taint = DISRUPTED if api.closes_by_taint else CORDONED
    return any(toleration.tolerates(taint) for toleration in pod.tolerations)


def next_step(
    pods: Iterable[Pod], api: Generation, *, now: float, deadline: float | None = None
) -> DrainStep:
    """What to do about a node's pods now. ``now`` and ``deadline`` (TRM-10): seconds since the epoch."""
    leaving = [pod for pod in pods if not stays(pod, api, now=now)]
    delete = () if deadline is None else _due(leaving, now, deadline)
    doomed = {deletion.pod.uid for deletion in delete}
    tier = _first_tier(leaving, api)
    open_ = [pod for pod in tier if not pod.terminating and pod.uid not in doomed]
    held = tuple(pod for pod in open_ if holds(pod, now=now))
    evict = tuple(pod for pod in open_ if pod not in held)
    return DrainStep(evict, delete, held, len(leaving))


def _first_tier(leaving: list[Pod], api: Generation) -> list[Pod]:
    """The tier that goes first; the next one waits until it has left (TRM-07). v1alpha5 has two tiers, v1 four."""
    ranks = [_rank(pod, api) for pod in leaving]
    first = min(ranks, default=0)
    return [pod for pod, rank in zip(leaving, ranks, strict=True) if rank == first]


def _rank(pod: Pod, api: Generation) -> int:
    critical = 2 * (pod.priority_class in CRITICAL)
    return critical + (api.drains_daemons_last and pod.is_daemon)


def _due(leaving: list[Pod], now: float, deadline: float) -> tuple[Deletion, ...]:
    """Deletions so early that the pods' grace fits before the deadline, of all tiers at once (TRM-11)."""
    remaining = max(LEAST_GRACE_SECONDS, int(deadline - now))
    return tuple(
        Deletion(pod, min(remaining, max(LEAST_GRACE_SECONDS, pod.grace_seconds)))
        for pod in leaving
        if now >= deadline - pod.grace_seconds
        and not (pod.terminating and pod.terminate_at <= deadline)
    )
