"""A second scheduler that decides and records, and acts on nothing (SHADOW).

It has no Lease and no consumer group, writes no object and no event, and sends no message: what would do so is replaced
here. What a plan would create is in its record. The real scheduler's machines and commands show in the mirror, so
the shadow goes on from what really happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.scheduler.handlers import Handlers
from services.scheduler.state.decisions import Rejected
from shared.disruption.records import Command, World
from shared.domain.machines.machine import Machine
from shared.domain.snapshot import Snapshot
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.redis import streams
from shared.redis.bus.envelope import Handler
from shared.solver.plan import Plan, PlannedMachine

log = get_logger(__name__)


@dataclass
class NoEvents(Recorder):
    """Publishes nothing."""

    async def publish(
        self,
        involved: dict[str, str],
        type: str,
        reason: str,
        message: str,
        *,
        dedupe_seconds: float = 120,
        once: str = "",
        alike: str = "",
    ) -> None:
        """Nothing happens."""


class NoCreation:
    """Creates nothing."""

    async def create(
        self, desired: list[PlannedMachine], plan: Plan, snapshot: Snapshot
    ) -> list[PlannedMachine]:
        """Nothing is created."""
        return []

    async def give_back(self, machines: Iterable[Machine]) -> None:
        """Nothing is deleted."""


async def start_nothing(
    command: Command, id_: str, world: World, rejected: Sequence[Rejected] = ()
) -> bool:
    """The command is recorded, and that is all."""
    log.info("would disrupt", command=command.text, id=id_)
    return False


def followed(handlers: Handlers) -> dict[str, Handler]:
    """What a shadow does with the messages of each stream: the same as the scheduler, but it takes none."""
    return {
        streams.PODS: handlers.pods,
        streams.MACHINES: handlers.machines,
        streams.INTERRUPTIONS: handlers.interruptions,
    }
