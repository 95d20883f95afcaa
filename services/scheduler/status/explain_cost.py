"""``POST /explain`` about the cost: what the cluster's pods would cost on new machines, and the proven lower bound.

Plans all pods anew in a process of its own, one question at a time, as the other questions do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from services.scheduler.state.cluster import ClusterState
from services.scheduler.status.one_at_a_time import OneAtATime, cannot_judge
from shared.domain.snapshot import Snapshot
from shared.runtime.child import Bounds, in_child
from shared.runtime.services import Answer, json_answer
from shared.simulation.repacking import repack
from shared.solver.solve import SolverSettings

BOUNDS = Bounds("the cost of new machines", seconds=120.0, memory_bytes=1024 << 20, niceness=10)


@dataclass(frozen=True)
class CostRequest:
    """What the computing process is given."""

    snapshot: Snapshot
    settings: SolverSettings


@dataclass
class CostExplainer:
    """Answers one question at a time."""

    cluster: ClusterState
    options: Callable[[], SolverSettings]
    bounds: Bounds = BOUNDS
    _turn: OneAtATime = field(
        default_factory=lambda: OneAtATime("the cost is being computed; try again when it is"),
        init=False,
    )

    async def answer(self) -> Answer:
        """Costs by policy and the bound; 503 while the cluster cannot be judged, 429 while another one is answered."""
        return await self._turn.answer(self._answer)

    async def _answer(self) -> Answer:
        snapshot = await self.cluster.snapshot()
        if snapshot is None:
            return cannot_judge(self.cluster)
        return await in_child(answer_request, CostRequest(snapshot, self.options()), self.bounds)


def answer_request(request: CostRequest) -> Answer:
    """The body of the computing process."""
    return json_answer(200, repack(request.snapshot, request.settings).document())
