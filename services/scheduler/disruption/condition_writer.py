"""Writes the conditions that ``conditions`` says are due, and remembers them until the mirror shows them."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from services.scheduler.disruption.conditions import (
    ConditionChange,
    asks_for_occupied_nodes,
    due,
    occupied_nodes,
)
from services.scheduler.disruption.reporting import DisruptionReporter
from services.scheduler.state.cluster import View
from shared.concurrency.clock import Clock
from shared.domain.machines.machine import Condition
from shared.errors import Conflict, NotFound
from shared.kube.machines import Machines
from shared.log import get_logger
from shared.redis.mirror.pending_writes import PendingWrites

log = get_logger(__name__)

MIRROR_LAG_SECONDS = 10.0
"""By then the mirror must show a condition; if it does not, the write got lost and is repeated."""


@dataclass
class ConditionWriter:
    """Of all machines, both generations."""

    view: View
    machines: Machines
    clock: Clock
    reporter: DisruptionReporter
    nominated: Callable[[], set[str]]
    kept: Callable[[], Set[str]]
    """Names of nodes that keep room for pods that do not exist yet."""
    _written: PendingWrites[tuple[str, str], bool] = field(default_factory=PendingWrites)
    """(machine UID, condition) -> whether it is true now."""

    async def step(self) -> list[ConditionChange]:
        """Write what is due. Returns what was written."""
        now = self.clock.monotonic()
        self._written.unshown(lambda *_: False, now=now)
        pools = self.view.pools()
        asked = any(map(asks_for_occupied_nodes, pools.values()))
        changes = due(
            self.view.machines(),
            pools,
            occupied_nodes(self.view.pods()) | self.kept() if asked else frozenset(),
            self.nominated(),
            now=self.clock.now(),
        )
        return [
            change
            for change in changes
            if self._written.get((change.machine.uid, change.condition), now=now) != change.is_true
            and await self._write(change, now)
        ]

    async def _write(self, change: ConditionChange, now: float) -> bool:
        status = "True" if change.is_true else "False"
        condition = Condition(status, change.condition, since=self.clock.now())
        try:
            await self.machines.write_condition(change.machine, change.condition, condition)
        except (NotFound, Conflict) as error:
            log.info("overtaken by a change", machine=change.machine.name, error=error.message)
            return False
        key = change.machine.uid, change.condition
        self._written.note(key, change.is_true, now=now, most_seconds=MIRROR_LAG_SECONDS)
        self.reporter.condition_changed(change, self.view.pools().get(change.machine.pool_key))
        return True
