"""Which pods of a draining node to evict, delete or wait for next: pure (TRM-06, TRM-07, TRM-09, TRM-11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from math import inf

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


def not_stuck(pods: Iterable[Pod], seen: Mapping[str, float], monotonic: float) -> frozenset[str]:
    """UIDs of the terminating pods that are not stuck yet, whatever the wall clock says: it may be wrong by an hour.

    ``seen``: pod UID -> when the drain first saw it terminating, monotonic seconds as ``monotonic``.
    """
    return frozenset(
        pod.uid
        for pod in pods
        if monotonic - seen.get(pod.uid, -inf) <= pod.grace_seconds + STUCK_SECONDS
    )


def stays(pod: Pod, api: Generation, *, now: float, fresh: Set[str] = frozenset()) -> bool:
    """A drain leaves these alone: finished, mirrors, stuck ones, those that tolerate the node's taint (TRM-06).

    ``fresh``: UIDs of pods that are not stuck, as ``not_stuck`` tells.
    """
    if pod.is_terminal or pod.is_mirror:
        return True
    late = pod.terminating and pod.terminate_at and now - pod.terminate_at > STUCK_SECONDS
    if late and pod.uid not in fresh:
        return True
    taint = DISRUPTED if api.closes_by_taint else CORDONED
    return any(toleration.tolerates(taint) for toleration in pod.tolerations)


def next_step(
    pods: Iterable[Pod],
    api: Generation,
    *,
    now: float,
    deadline: float | None = None,
    fresh: Set[str] = frozenset(),
) -> DrainStep:
    """What to do about a node's pods now. ``now`` and ``deadline`` (TRM-10): seconds since the epoch; ``fresh``: as in
    ``stays``."""
    leaving = [pod for pod in pods if not stays(pod, api, now=now, fresh=fresh)]
    delete = () if deadline is None else _due(leaving, now, deadline)
    doomed = {deletion.pod.uid for deletion in delete}
    tier = _first_tier(leaving, api)
    open_ = [pod for pod in tier if not pod.terminating and pod.uid not in doomed]
    held = tuple(pod for pod in open_ if holds(pod, now=now))
    evict = tuple(pod for pod in open_ if pod not in held)
    return DrainStep(evict, delete, held, len(leaving))


def seconds_to_next(pods: Iterable[Pod], *, now: float, deadline: float | None = None) -> float:
    """Seconds until time alone changes what ``next_step`` does about these pods, as far as is known; infinite: never.
    ``now`` and ``deadline`` as there."""
    times = []
    for pod in pods:
        if pod.terminating and pod.terminate_at:
            times.append(pod.terminate_at + STUCK_SECONDS)
        if deadline is not None:
            times += [deadline - pod.grace_seconds, deadline]
    return min((at - now for at in times if at > now), default=inf)


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
