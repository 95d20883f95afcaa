"""Records the outcome of each machine's registration for its pool (LCH-77, F25).

Each outcome has two readers: the pool's condition NodeRegistrationHealthy, and the launch back-off, which slows down a
pool whose machines never register. The launcher and the terminator both record outcomes; the same outcome counts once.
While Redis is unreachable an outcome is lost: this is logged, and the next outcome corrects both readers.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.machines.machine import Machine
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff, template_of
from shared.redis.mirror.pools.registrations import RegistrationOutcomes

log = get_logger(__name__)


@dataclass
class PoolHealth:
    """Writes registration outcomes to the condition's list and to the launch back-off."""

    outcomes: RegistrationOutcomes
    backoff: LaunchBackoff

    async def registered(self, machine: Machine) -> None:
        """Record that the machine's node joined."""
        if machine.pool:
            await self._record(machine, good=True)

    async def failed(self, machine: Machine) -> None:
        """Record that the node never joined: registration timed out, or the instance terminated by itself (LCH-67)."""
        if machine.pool:
            await self._record(machine, good=False)

    async def _record(self, machine: Machine, *, good: bool) -> None:
        try:
            await self.outcomes.record(machine.pool_key, machine.uid, good=good)
            if good:
                await self.backoff.succeeded(machine.pool_key)
            elif await self.backoff.failed(machine.pool_key, template_of(machine), machine.uid):
                log.warning("pool waits before it launches again", pool=machine.pool_key)
        except TransientError as error:
            log.warning(
                "outcome of a registration is lost", machine=machine.name, error=error.message
            )
