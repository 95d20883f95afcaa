"""Logs which pods may keep machines from being consolidated, once an hour each (SCH-28).

A preference counts as a requirement until it cannot be met, so a machine that exists only for it is not given up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.domain.workloads.pods import Pod
from shared.log import get_logger
from shared.solver.placement.relaxation import SCHEDULE_ANYWAY

log = get_logger(__name__)

AGAIN_SECONDS = 3600.0
MOST_LOGGED = 100
"""In one round; pods of one workload are alike."""
MOST_KNOWN = 20_000
ANTI_AFFINITY = "pod has a preferred Anti-Affinity which can prevent consolidation"
SPREAD = "pod has a preferred TopologySpreadConstraint which can prevent consolidation"


@dataclass
class PreferenceLog:
    """Remembers which pods it has logged."""

    _logged: dict[str, float] = field(default_factory=dict)
    """Pod UID -> monotonic time."""

    def note(self, pods: Iterable[Pod], *, now: float) -> None:
        """``pods`` that are planned now; ``now`` is monotonic."""
        self._logged = {uid: at for uid, at in self._logged.items() if now - at < AGAIN_SECONDS}
        logged = 0
        for pod in pods:
            texts = list(_preferences(pod))
            if not texts or pod.uid in self._logged:
                continue
            if logged == MOST_LOGGED or len(self._logged) >= MOST_KNOWN:
                return
            logged += 1
            self._logged[pod.uid] = now
            for text in texts:
                log.info(text, pod=pod.key)


def _preferences(pod: Pod) -> Iterable[str]:
    if any(term.weight is not None for term in pod.anti_affinity):
        yield ANTI_AFFINITY
    if any(one.when_unsatisfiable == SCHEDULE_ANYWAY for one in pod.spread):
        yield SPREAD
