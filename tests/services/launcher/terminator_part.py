"""The terminator's part of garbage collection: it reads the launcher's orders off the stream and carries them out."""

from __future__ import annotations

from dataclasses import dataclass

from services.terminator.batched_lists import BatchedLists
from services.terminator.instances import Instances
from services.terminator.orphaned_instances import CONFIRM_AFTER_SECONDS, OrphanedInstances
from shared.cloud.client.session import Cloud
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.messages import EndInstance
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from tests.services.conftest import CLUSTER, messages_on
from tests.support.clock.fake import FakeClock


@dataclass
class TerminatorPart:
    """Ends what the launcher ordered since the last time."""

    kube: Kube
    cloud: Cloud
    bus: Bus
    clock: FakeClock
    _read: int = 0
    """How many messages were read before."""

    async def orders(self) -> list[str]:
        """Instance ids of the orders that were not read before."""
        messages = await messages_on(self.bus, streams.TERMINATIONS)
        new, self._read = messages[self._read :], len(messages)
        return [one.instance for one in new if isinstance(one, EndInstance)]

    async def carry_out(self) -> None:
        """Both steps of the terminator. Time goes on only when there is an order."""
        machines = Machines(self.kube)
        orphans = OrphanedInstances(
            machines, BatchedLists(self.kube, machines), Instances(self.cloud.ec2, self.clock),
            ShiftedZones(self.bus.redis, self.bus.prefix, self.clock), self.clock, CLUSTER,
        )  # fmt: skip
        if ids := sorted(set(await self.orders())):
            for instance in ids:
                await orphans.step(instance)
            self.clock.advance(CONFIRM_AFTER_SECONDS + 1)
            for instance in ids:
                await orphans.step(instance)
