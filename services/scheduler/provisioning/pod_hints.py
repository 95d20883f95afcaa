"""The smallest change that would place a waiting pod, as an event on it: for one pod at a time, beside the work.

A process of its own searches for it, as for the question about a pod, and yields to this one. While pods wait for a
plan none is started. What may go wrong: the search takes more time or memory than there is. Then the log says so, and
the next turn is another pod's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from services.scheduler.provisioning.planner import Planner
from services.scheduler.state.cluster import ClusterState
from shared.api.core.references import to_pod
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import TransientError
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.runtime.child import Bounds, ChildFailed, in_child
from shared.simulation.changes.search import explain_pod
from shared.solver.solve import SolverSettings

log = get_logger(__name__)

BOUNDS = Bounds("the hint for a pod", seconds=60.0, memory_bytes=1024 << 20, niceness=19)
REPEAT_SECONDS = 3600.0
MOST_KNOWN = 2000
"""Pods whose hint is remembered, so that each gets its turn once for each reason."""
SMALLEST_CHANGE = "SmallestChange"


@dataclass
class PodHints:
    """``waiting``: pod -> why no plan places it, the oldest first. ``is_batching``: do pods wait for a plan?"""

    cluster: ClusterState
    options: Callable[[], SolverSettings]
    waiting: Callable[[], Mapping[str, str]]
    is_batching: Callable[[], bool]
    recorder: Recorder
    bounds: Bounds = BOUNDS
    _known: OrderedDict[str, str] = field(default_factory=OrderedDict, init=False)
    """Pod UID -> the reason for which it had its turn, the latest last."""

    async def step(self) -> None:
        """Give one pod its event. The longest waiting one that had no turn since its reason changed comes first."""
        if self.is_batching() or not (reasons := self.waiting()):
            return
        try:
            snapshot = await self.cluster.snapshot()
        except TransientError:  # Planning, which needs the same, says so.
            return
        if snapshot is None or (pod := self._next(snapshot, reasons)) is None:
            return
        self._remember(pod, reasons[pod.key])
        request = snapshot, pod.uid, self.options()
        try:
            text = await in_child(hint, request, self.bounds)
        except ChildFailed as error:
            log.info("no hint for a pod", pod=pod.key, reason=error.message)
            return
        if text:
            await self.recorder.publish(
                to_pod(pod), "Normal", SMALLEST_CHANGE, text, dedupe_seconds=REPEAT_SECONDS
            )

    def _next(self, snapshot: Snapshot, reasons: Mapping[str, str]) -> Pod | None:
        pods = {pod.key: pod for pod in snapshot.pods if not pod.node_name and not pod.virtual}
        due = (pods[key] for key in reasons if key in pods)
        return next((pod for pod in due if self._known.get(pod.uid) != reasons[pod.key]), None)

    def _remember(self, pod: Pod, reason: str) -> None:
        self._known[pod.uid] = reason
        self._known.move_to_end(pod.uid)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def hints_of(planner: Planner, recorder: Recorder) -> PodHints:
    """Of the pods that this planner has no place for."""
    return PodHints(
        planner.cluster,
        planner.solver.options,
        lambda: planner.reporter.last_reasons,
        planner.is_batching,
        recorder,
    )


def hint(request: tuple[Snapshot, str, SolverSettings]) -> str:
    """The event's text about the pod with this UID; empty where no known change is enough. The body of the searching
    process."""
    found = explain_pod(*request)
    changes = "; ".join(f"{edit.object}: {edit.text}" for edit in found.smallest)
    return f"This would place it: {changes}" if changes else ""
