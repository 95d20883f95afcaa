"""Reports a Machine whose instance ended by itself before its node joined, and counts it against its pool (LCH-67).

The launcher does the same for Machines that it finds lost. Where EC2's messages arrive, the interruption service has
ordered the deletion long before; every Machine that goes passes here. Reported by both it is one event, one failure.

What may go wrong: a kill right after the finalizer went loses the event. The pool's health is advice (F25).
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.api.core.references import to_machine
from shared.cloud.ec2.ended_instances import (
    TERMINATED_REASON,
    ended_by_itself,
    termination_message,
    would_end_again,
)
from shared.cloud.ec2.records import Instance
from shared.domain.machines.machine import REGISTERED, Machine
from shared.kube.recorder import Recorder
from shared.redis.mirror.pools.pool_health import PoolHealth


@dataclass(frozen=True)
class EarlyFailures:
    """Reports why a Machine never became a node."""

    recorder: Recorder
    health: PoolHealth

    async def report(self, machine: Machine, instance: Instance | None) -> bool:
        """True when the instance ended by itself and that was reported."""
        if machine.has(REGISTERED) or instance is None or not ended_by_itself(instance):
            return False
        text = termination_message(instance)
        await self.recorder.publish(to_machine(machine), "Warning", TERMINATED_REASON, text)
        if would_end_again(instance):
            await self.health.failed(machine)
        return True
