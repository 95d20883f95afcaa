"""Room that is kept for pods that do not exist yet, as disruption must count it (GAT-02)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shared.domain.snapshot import Snapshot
from shared.solver.solve import SolverSettings
from shared.solver.virtual_pods import keeps_room, seated


@dataclass
class KeptRoom:
    """``nodes``: names of those that hold virtual pods, as last computed."""

    nodes: frozenset[str] = frozenset()

    async def seat(self, snapshot: Snapshot, settings: SolverSettings, *, now: float) -> Snapshot:
        """The snapshot with its virtual pods on the nodes where they fit."""
        if not keeps_room(snapshot):
            self.nodes = frozenset()
            return snapshot
        # In a thread: on a large cluster it takes a while.
        found = await asyncio.to_thread(seated, snapshot, settings, now=now)
        self.nodes = frozenset(p.node_name for p in found.pods if p.virtual and p.node_name)
        return found
