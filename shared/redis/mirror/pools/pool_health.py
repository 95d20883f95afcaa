"""What the registrations of a pool's machines mean for the pool (LCH-77, F25).

Each outcome goes to two places: the pool's condition NodeRegistrationHealthy, which people read, and the launch
back-off, which stops a pool that only burns money. The launcher and the terminator take them down; one that both saw
counts once. Both are advice: while Redis is away an outcome is lost, and that is logged and costs nothing else.
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
    """Takes down how a machine's registration went."""

    outcomes: RegistrationOutcomes
    backoff: LaunchBackoff

    async def registered(self, machine: Machine) -> None:
        """Its node joined."""
        if machine.pool:
            await self._note(machine, good=True)

    async def failed(self, machine: Machine) -> None:
        """It goes and its node never joined: the time was up, or its instance ended by itself (LCH-67)."""
        if machine.pool:
            await self._note(machine, good=False)

    async def _note(self, machine: Machine, *, good: bool) -> None:
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
