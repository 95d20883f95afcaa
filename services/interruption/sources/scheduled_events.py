"""Machines that wait for a scheduled event, as a source of notices: at the pool's lead time they are acted on.

The event stands on the Machine (``notices.notice``) and is found in the mirror, so a restart loses none. The
worker decides, because it knows what the pool says now. A Machine that is being deleted is put once more, because the
process that deleted it may have been killed before its event and report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from services.interruption.actions.policy import policy_of
from services.interruption.directory import InstanceLookup
from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.notice import Maintenance, Notice, NoticeKind, held_by, rank
from shared.concurrency.clock import Clock
from shared.domain.machines.machine import Machine
from shared.errors import DovetailError
from shared.log import get_logger
from shared.settings import InterruptionSettings

log = get_logger(__name__)

PERIOD_SECONDS = 15.0


@dataclass
class ScheduledEventSource:
    """Call ``check`` every ``PERIOD_SECONDS``."""

    settings: InterruptionSettings
    backlog: Backlog
    directory: InstanceLookup
    clock: Clock
    _settled: set[str] = field(default_factory=set)
    """UIDs of Machines that are being deleted and reported."""

    async def check(self) -> None:
        """Put a notice about each machine whose event is due into the backlog."""
        scheduled = self.directory.scheduled()
        self._settled &= {machine.uid for _, machine in scheduled}
        for instance, machine in scheduled:
            held = held_by(machine)
            if held is None or machine.uid in self._settled:
                continue
            try:
                policy = policy_of(await self.directory.pool(machine), self.settings)
            except DovetailError as error:
                log.warning("pool not known", machine=machine.name, error=error.message)
                continue
            now = self.clock.now()
            if now >= held.start - policy.lead_seconds:
                notice = _due(instance, held, now)
                await self.backlog.put(Entry(notice, partial(self._done, machine)), rank(notice, 1))

    def _done(self, machine: Machine) -> None:
        if machine.terminating:
            self._settled.add(machine.uid)


def _due(instance: str, held: Maintenance, now: float) -> Notice:
    name = f"maintenance/{instance}/{int(held.start)}"
    return Notice(
        name, NoticeKind.SCHEDULED, (instance,), None, held.start, now, held.source, held.event
    )
