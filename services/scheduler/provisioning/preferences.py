"""Tells in the log which pods may keep machines from being consolidated, once an hour each (SCH-28).

A preference is treated as a rule until it cannot be kept, so a machine that exists only for it is not given up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.domain.pods import Pod
from shared.log import get_logger
from shared.solver.relaxation import SCHEDULE_ANYWAY

log = get_logger(__name__)

AGAIN_SECONDS = 3600.0
MOST_TOLD = 100
"""In one round; pods of one workload are alike."""
MOST_KNOWN = 20_000
ANTI_AFFINITY = "pod has a preferred Anti-Affinity which can prevent consolidation"
SPREAD = "pod has a preferred TopologySpreadConstraint which can prevent consolidation"


@dataclass
class Hints:
    """Remembers whom it told of."""

    _told: dict[str, float] = field(default_factory=dict)
    """Pod UID -> monotonic time."""

    def tell(self, pods: Iterable[Pod], *, now: float) -> None:
        """``pods`` that are planned now; ``now`` is monotonic."""
        self._told = {uid: at for uid, at in self._told.items() if now - at < AGAIN_SECONDS}
        told = 0
        for pod in pods:
            hints = list(_hints(pod))
            if not hints or pod.uid in self._told:
                continue
            if told == MOST_TOLD or len(self._told) >= MOST_KNOWN:
                return
            told += 1
            self._told[pod.uid] = now
            for hint in hints:
                log.info(hint, pod=pod.key)


def _hints(pod: Pod) -> Iterable[str]:
    if any(term.weight is not None for term in pod.anti_affinity):
        yield ANTI_AFFINITY
    if any(one.when_unsatisfiable == SCHEDULE_ANYWAY for one in pod.spread):
        yield SPREAD
