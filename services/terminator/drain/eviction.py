"""Evicts pods, repeatedly and with growing pauses, and reports what holds them (TRM-08, TRM-09, TRM-11, F22).

A budget is never overruled before the Machine's own deadline. What may go wrong: a pod that two budgets protect can
never be evicted (500): it is reported like a full budget, and waits for the deadline or for a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from services.terminator.drain.pods import Deletion, DrainStep
from services.terminator.ports import Ports
from services.terminator.writer import Writer
from shared.concurrency.backoff import doubled
from shared.domain import labels as keys
from shared.domain.nodes import Node
from shared.domain.workloads.pods import Pod
from shared.errors import Conflict, DovetailError, EvictionBlocked, NotFound, TransientError
from shared.kube.resources import PODS
from shared.log import get_logger

log = get_logger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 10.0
FRESH_SECONDS = 1.0
"""A list of pods older than this is not worked on: many of them may have gone. The next round lists again."""


class Retry(NamedTuple):
    """Monotonic time from which a pod may be evicted again, and how often it could not be evicted."""

    at: float
    failures: int


@dataclass
class Evictions:
    """Keeps when each pod was tried. A restart forgets that, which costs one more request per pod."""

    ports: Ports
    writer: Writer
    _retries: dict[str, dict[str, Retry]] = field(default_factory=dict)
    """Node UID -> pod UID -> its next attempt."""

    async def carry_out(self, node: Node, step: DrainStep, why: str) -> float:
        """One round; monotonic time of the next attempt, infinite for none. ``why``: the reason of the disruption, for
        the pods' events.

        A call that fails for the moment (F28: somebody's webhook is away) holds up that one pod.
        """
        if not await self._attempt(node, step, why):
            return -inf
        return min((retry.at for retry in self._retries[node.uid].values()), default=inf)

    async def _attempt(self, node: Node, step: DrainStep, why: str) -> bool:
        """False: a pod must be tried again in the next round."""
        settled = True
        fresh_until = self.ports.clock.monotonic() + FRESH_SECONDS
        desired = [*(deletion.pod for deletion in step.delete), *step.evict]
        self._keep(node, desired)
        for deletion in step.delete:
            if self._may_try(node, deletion.pod):
                settled &= await self._delete(node, deletion, why)
        for pod in step.held:
            await self.writer.blocked(
                node, pod, f"it has the annotation {keys.DO_NOT_DISRUPT} (or {keys.DO_NOT_EVICT})"
            )
        for place, pod in enumerate(step.evict):
            # A slow API server ends the round early: the rest of the list would be too old.
            if self.ports.clock.monotonic() >= fresh_until:
                return False
            if self._may_try(node, pod):
                settled &= await self._evict(node, pod, why, place / len(step.evict))
        return settled

    def forget(self, node: Node) -> None:
        self._retries.pop(node.uid, None)

    def _keep(self, node: Node, pods: Iterable[Pod]) -> None:
        known = self._retries.get(node.uid, {})
        self._retries[node.uid] = {pod.uid: known[pod.uid] for pod in pods if pod.uid in known}

    def _may_try(self, node: Node, pod: Pod) -> bool:
        retry = self._retries[node.uid].get(pod.uid)
        return retry is None or self.ports.clock.monotonic() >= retry.at

    async def _evict(self, node: Node, pod: Pod, why: str, place: float) -> bool:
        """False: the pod is not the one that was listed, or has changed."""
        try:
            await self.ports.kube.evict(pod.name, pod.namespace, uid=pod.uid)
        except NotFound:
            code = "404"
        except Conflict:
            code = "409"
        except EvictionBlocked as error:
            code = "500" if error.context.get("multiple") else "429"
            await self._postpone(node, pod, error, place)
        except TransientError as error:
            code = str(error.context.get("code") or "none")
            await self._postpone(node, pod, error, place)
        else:
            code = "201"
            log.info("evicted pod", pod=pod.key, node=node.name)
            self._count(pod, why)
            await self.writer.evicted(pod, why)
        self.ports.metrics.evictions.labels(code).inc()
        return code not in ("404", "409")

    async def _postpone(
        self, node: Node, pod: Pod, error: DovetailError, place: float = 0.0
    ) -> None:
        """``place``: the pod's among those that are tried, from 0 to 1. Later ones come up to half a pause early: when
        all pods of one budget are tried at the same moment, the budget stays unused until the next.
        """
        known = self._retries[node.uid].get(pod.uid)
        failures = known.failures if known else 0
        pause = doubled(failures, first=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS)
        at = self.ports.clock.monotonic() + pause * (1 - place / 2)
        self._retries[node.uid][pod.uid] = Retry(at, failures + 1)
        await self.writer.blocked(node, pod, error.message)

    def _count(self, pod: Pod, why: str) -> None:
        """Count each pod once, however often it is evicted or deleted (MET-04)."""
        if not pod.terminating:
            self.ports.metrics.pods_drained.labels(why.lower()).inc()

    async def _delete(self, node: Node, deletion: Deletion, why: str) -> bool:
        """Delete past budgets and annotations, because the deadline is near (TRM-11). False: as in ``_evict``."""
        pod, grace = deletion.pod, deletion.grace_seconds
        try:
            await self.ports.kube.delete(
                PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace
            )
        except (NotFound, Conflict):
            return False
        except TransientError as error:
            await self._postpone(node, pod, error)
            return True
        self._count(pod, why)
        log.info("deleted pod at the end of its machine", pod=pod.key, grace=grace)
        await self.writer.disrupted(pod, grace)
        return True
