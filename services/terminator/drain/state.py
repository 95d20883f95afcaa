"""How far one drain is, by clocks that may be wrong, and when its next round is due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from services.terminator.drain.pods import not_stuck, seconds_to_next
from services.terminator.waiting.step import LONGEST_WAIT_SECONDS, Wait
from shared.concurrency.clock import Clock, SteadyTime
from shared.domain.records import NODES, PODS
from shared.domain.workloads.pods import Pod


@dataclass
class DrainState:
    """``time``: since the drain began."""

    time: SteadyTime
    ended: bool = False
    seen: dict[str, float] = field(default_factory=dict)
    """Terminating pods of the node: UID -> when they were first seen so, monotonic seconds."""
    due: float = -inf
    """Monotonic time from which the next round is due although no object changed."""
    pods: frozenset[str] = frozenset()
    """Keys of the pods that were on the node in the last round."""

    @classmethod
    def begin(cls, clock: Clock) -> DrainState:
        """The drain begins now."""
        return cls(SteadyTime.begin(clock))

    @property
    def began(self) -> float:
        """Monotonic seconds."""
        return self.time.monotonic

    def now(self, clock: Clock) -> float:
        """Seconds since the epoch, without what the wall clock has jumped ahead since the drain began."""
        return self.time.now(clock)

    def fresh(self, pods: Iterable[Pod], monotonic: float) -> frozenset[str]:
        """UIDs of the pods that this drain has not waited for long enough to call them stuck."""
        leaving = [pod for pod in pods if pod.terminating]
        self.seen = {pod.uid: self.seen.get(pod.uid, monotonic) for pod in leaving}
        return not_stuck(leaving, self.seen, monotonic)

    def plan(self, pods: Iterable[Pod], retry: float, deadline: float | None, clock: Clock) -> None:
        """Note after a round when the next one is due. ``retry``: monotonic time of the next attempt at a pod."""
        everyone = list(pods)
        self.pods = frozenset(pod.key for pod in everyone)
        seconds = seconds_to_next(everyone, now=self.now(clock), deadline=deadline)
        self.due = min(retry, clock.monotonic() + min(seconds, LONGEST_WAIT_SECONDS))

    def wait(self, node: str, *objects: tuple[str, str]) -> Wait:
        """Until the next round is due, or the node, one of its pods or another of these ``objects`` changes."""
        pods = ((PODS, key) for key in self.pods)
        return Wait(self.due, node, frozenset([(NODES, node), *objects, *pods]))
