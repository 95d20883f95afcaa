"""``GET /explain/ledgers/constraints``: what the rules of the dearest workloads cost, by planning without them.

All pods are planned anew for each rule, in a process of its own that yields to this one, one question at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from services.scheduler.state.cluster import ClusterState
from services.scheduler.status.one_at_a_time import OneAtATime, cannot_judge
from shared.concurrency.clock import Clock, SystemClock
from shared.runtime.child import Bounds, in_child
from shared.runtime.services import Answer, json_answer
from shared.simulation.ledgers.pricing import Source, constraints_document, priced
from shared.solver.solve import SolverSettings

PATH = "/explain/ledgers/constraints"
MOST_WORKLOADS = 20
SECONDS = 30.0
"""No further plan begins after this; those that are left out are counted in the answer."""
BOUNDS = Bounds("the ledger of constraints", seconds=60.0, memory_bytes=1024 << 20, niceness=19)


@dataclass
class ConstraintsLedger:
    """Answers one question at a time."""

    cluster: ClusterState
    options: Callable[[], SolverSettings]
    clock: Clock
    bounds: Bounds = BOUNDS
    _turn: OneAtATime = field(
        default_factory=lambda: OneAtATime(
            "the ledger is being computed; try again when it is",
            "run `dovetail ledger constraints`, which may take longer",
        ),
        init=False,
    )

    async def answer(self, _body: bytes, _query: Mapping[str, str]) -> Answer:
        """Rules with their prices, the dearest first; 503 while the cluster cannot be judged."""
        return await self._turn.answer(self._answer)

    async def _answer(self) -> Answer:
        snapshot = await self.cluster.snapshot()
        if snapshot is None:
            return cannot_judge(self.cluster)
        source = Source(snapshot, self.options(), self.clock.now())
        return await in_child(answer_request, source, self.bounds)


def answer_request(source: Source) -> Answer:
    """The body of the computing process."""
    found = priced(source, SystemClock(), MOST_WORKLOADS, SECONDS)
    return json_answer(200, constraints_document(found))
