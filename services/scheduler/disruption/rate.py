"""The disruptions of the last hour: counted before a machine goes, and never taken for none."""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.state.cluster import View
from shared.domain.machines.machine import Machine
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis.mirror.pools.disruption_rate import DisruptionRate

log = get_logger(__name__)


@dataclass
class CountedDisruptions:
    """For pools with ``most_disruptions_per_hour`` the count must be right, for others it is kept as well as it can be:
    they may get a rate later."""

    counter: DisruptionRate
    view: View

    async def spent(self) -> dict[str, int]:
        """Pool key -> machines disrupted in the last hour. Where Redis does not say so, a pool with a rate has used all
        of it up."""
        try:
            return await self.counter.spent()
        except TransientError as error:
            log.warning("rate of disruptions not known", error=error.message)
            rates = {key: pool.most_disruptions_per_hour for key, pool in self.view.pools().items()}
            return {key: rate for key, rate in rates.items() if rate is not None}

    async def spend(self, machine: Machine) -> None:
        """Count a machine that is deleted next; once, however often that is tried.

        Raises TransientError where its pool has a rate and Redis does not answer: the machine stays meanwhile.
        """
        try:
            await self.counter.spend(machine.pool_key, [machine.uid])
        except TransientError as error:
            pool = self.view.pools().get(machine.pool_key)
            if pool is not None and pool.most_disruptions_per_hour is not None:
                raise
            log.warning("disruption not counted", machine=machine.name, error=error.message)
