"""Questions that are answered by planning in a process of its own: one at a time, so that they never pile up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.scheduler.state.cluster import ClusterState
from shared.runtime.child import ChildFailed
from shared.runtime.services import Answer, json_answer


@dataclass
class OneAtATime:
    """``busy``: the error for a second caller (429). ``hint``: the next step after a failed process (503)."""

    busy: str
    hint: str = ""
    _running: bool = field(default=False, init=False)

    async def answer(self, compute: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer of ``compute``, unless another one is being computed."""
        if self._running:
            return json_answer(429, {"error": self.busy})
        self._running = True
        try:
            return await compute()
        except ChildFailed as error:
            return json_answer(503, {"error": "; ".join(filter(None, (error.message, self.hint)))})
        finally:
            self._running = False


def cannot_judge(cluster: ClusterState) -> Answer:
    """The answer while there is no snapshot to plan from."""
    cause = cluster.not_synced() or "the catalogue is not known yet"
    return json_answer(503, {"error": f"the cluster cannot be judged now: {cause}"})
