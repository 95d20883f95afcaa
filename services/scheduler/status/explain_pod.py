"""``POST /explain`` about a pod: why it is pending, and the smallest change that would place it.

Plans the cluster as it is now again, with one change after another, in a process of its own as ``/simulate`` does: the
rounds that buy never wait for it. One question at a time; a second one gets 429.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from services.scheduler.provisioning.backoff import workload_of
from services.scheduler.state.cluster import ClusterState
from services.scheduler.state.obstacles import Obstacles
from services.scheduler.status.explain_purchase import Purchases
from services.scheduler.status.one_at_a_time import OneAtATime, cannot_judge
from shared.domain.snapshot import Snapshot
from shared.runtime.child import Bounds, in_child
from shared.runtime.services import Answer, json_answer
from shared.simulation.changes.answer import document_of
from shared.simulation.changes.search import PodExplanation, explain_pod
from shared.solver.solve import SolverSettings

BOUNDS = Bounds("the explanation", seconds=60.0, memory_bytes=1024 << 20, niceness=10)


@dataclass(frozen=True)
class PodRequest:
    """What the explaining process is given."""

    snapshot: Snapshot
    uid: str
    settings: SolverSettings
    obstacles: Mapping[str, str]
    """Pool key -> why its machines are not made."""


@dataclass
class PodExplainer:
    """Answers about one pod at a time."""

    cluster: ClusterState
    options: Callable[[], SolverSettings]
    purchases: Purchases
    obstacles: Obstacles
    bounds: Bounds = BOUNDS
    _turn: OneAtATime = field(
        default_factory=lambda: OneAtATime(
            "another pod is being explained; try again when it is done",
            "use dovetail explain pod -f with fewer objects",
        ),
        init=False,
    )

    async def answer(self, name: str) -> Answer:
        """``name``: namespace/name, or a name that only one namespace has."""
        return await self._turn.answer(partial(self._answer, name))

    async def _answer(self, name: str) -> Answer:
        snapshot = await self.cluster.snapshot()
        if snapshot is None:
            return cannot_judge(self.cluster)
        found = [pod for pod in snapshot.pods if name in (pod.key, pod.name)]
        if not found:
            return json_answer(404, {"error": f"no unfinished pod is named {name[:253]!r}"})
        if len(found) > 1:
            names = ", ".join(pod.key for pod in found[:5])
            return json_answer(400, {"error": f"several pods have this name, name one: {names}"})
        pod = found[0]
        if pod.node_name:
            document = document_of(PodExplanation(pod, "bound"))
            return json_answer(200, document | {"bought": self.purchases.of_node(pod.node_name)})
        request = PodRequest(
            snapshot, pod.uid, self.options(), self.obstacles.of_workload(workload_of(pod))
        )
        return await in_child(answer_request, request, self.bounds)


def answer_request(request: PodRequest) -> Answer:
    """The body of the explaining process."""
    found = explain_pod(
        request.snapshot, request.uid, request.settings, obstacles=request.obstacles
    )
    return json_answer(200, document_of(found))
