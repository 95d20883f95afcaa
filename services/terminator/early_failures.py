"""A machine whose instance ended by itself before its node joined is explained and counted against its pool (LCH-67).

The launcher does the same for machines that it finds lost. Where EC2's messages arrive, the interruption service has
ordered the deletion long before; here every machine that goes comes by. Told by both, it is one event and one failure.

What may go wrong: a kill right after the finalizer went loses the event. The pool's health is advice (F25).
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.api.references import to_machine
from shared.cloud.endings import ENDED, ended_by_itself, ending_of, would_end_again
from shared.cloud.records import Instance
from shared.domain.machines import REGISTERED, Machine
from shared.kube.recorder import Recorder
from shared.mirror.pool_health import PoolHealth


@dataclass(frozen=True)
class Endings:
    """Says why a machine never became a node."""

    recorder: Recorder
    health: PoolHealth

    async def note(self, machine: Machine, instance: Instance | None) -> bool:
        """Whether there was something to say."""
        if machine.has(REGISTERED) or instance is None or not ended_by_itself(instance):
            return False
        text = ending_of(instance)
        await self.recorder.publish(to_machine(machine), "Warning", ENDED, text)
        if would_end_again(instance):
            await self.health.failed(machine)
        return True
