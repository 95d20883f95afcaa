"""A node that goes, and the machine behind it, if there is one."""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.machines import DISRUPTION_REASON, REGISTERED, Machine
from shared.domain.nodepools import V1, V1ALPHA5
from shared.domain.nodes import Node

FORCEFUL = "Forceful Termination"
"""TRM-08: why pods go when nobody gave a reason."""


class Departure(msgspec.Struct, frozen=True):
    """Both as they were read at the beginning of a step."""

    node: Node
    machine: Machine | None

    @property
    def generation_api(self) -> str:
        """Without a machine the node's pool tells; a node without a pool belonged to a NodeClaim (NC-10)."""
        if self.machine is not None:
            return self.machine.generation_api
        return V1ALPHA5 if self.node.pool_key.startswith("Provisioner/") else V1

    @property
    def deadline(self) -> float | None:
        """TRM-10: when nothing holds the drain any more, in seconds since the epoch."""
        return None if self.machine is None else self.machine.terminate_at

    @property
    def why(self) -> str:
        """TRM-08: for the pods' events."""
        if self.machine is None or not self.machine.has(DISRUPTION_REASON):
            return FORCEFUL
        return self.machine.conditions[DISRUPTION_REASON].reason or FORCEFUL

    @property
    def is_registered(self) -> bool:
        """TRM-02: only then it is drained. The finalizer is written a moment before the condition."""
        ours = keys.FINALIZER in self.node.finalizers
        return ours or self.machine is None or self.machine.has(REGISTERED)
