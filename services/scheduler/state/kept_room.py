"""Room that is kept for pods that do not exist yet, as disruption must count it (GAT-02)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shared.domain.snapshot import Snapshot
from shared.simulation.decisions.prepared import to_survey
from shared.simulation.decisions.records import PassQuestion
from shared.solver.virtual_pods import keeps_room


@dataclass
class KeptRoom:
    """``nodes``: names of those that hold virtual pods, as last computed."""

    nodes: frozenset[str] = frozenset()

    async def seat(self, snapshot: Snapshot, question: PassQuestion) -> Snapshot:
        """The snapshot as the question changes it, with its virtual pods on the nodes where they fit."""
        if not keeps_room(snapshot):
            self.nodes = frozenset()
            return to_survey(snapshot, question)
        # In a thread: on a large cluster it takes a while.
        found = await asyncio.to_thread(to_survey, snapshot, question)
        self.nodes = frozenset(p.node_name for p in found.pods if p.virtual and p.node_name)
        return found
