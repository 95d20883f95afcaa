"""A node that is being terminated, and the Machine behind it, if there is one: pure."""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.machines.machine import DISRUPTION_REASON, REGISTERED, Machine
from shared.domain.nodes import Node
from shared.domain.pools.generations import GENERATIONS, OF_KIND, V1, Generation

FORCEFUL = "Forceful Termination"
"""The reason in the events of pods when nobody gave one (TRM-08)."""


class TerminatingNode(msgspec.Struct, frozen=True):
    """Node and Machine as they were read at the beginning of a step."""

    node: Node
    machine: Machine | None

    @property
    def api(self) -> Generation:
        """Without a Machine the node's pool decides; a node without a pool belonged to a NodeClaim (NC-10)."""
        if self.machine is not None:
            return self.machine.api
        return OF_KIND.get(self.node.pool_key.partition("/")[0], GENERATIONS[V1])

    @property
    def deadline(self) -> float | None:
        """The end of the drain, in seconds since the epoch (TRM-10); None: it has none."""
        return None if self.machine is None else self.machine.terminate_at

    @property
    def why(self) -> str:
        """The reason of the disruption, for the events of pods (TRM-08)."""
        if self.machine is None or not self.machine.has(DISRUPTION_REASON):
            return FORCEFUL
        return self.machine.conditions[DISRUPTION_REASON].reason or FORCEFUL

    @property
    def is_registered(self) -> bool:
        """Only a registered node is drained (TRM-02). Its finalizer is written a moment before the condition."""
        ours = keys.FINALIZER in self.node.finalizers
        return ours or self.machine is None or self.machine.has(REGISTERED)
