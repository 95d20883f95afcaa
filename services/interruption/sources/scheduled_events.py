"""Machines that wait for a scheduled event, as a source of notices: when the lead time is reached, it is time to go.

What is waited for stands on the machines (``maintenance.py``) and is found in the mirror, so no restart forgets it. The
worker decides: it knows what the pool says now. A machine that is being deleted comes once more, because whoever
ordered that may have been killed before it told why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from services.interruption.actions.policy import policy_of
from services.interruption.directory import Directory
from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.notice import Notice, NoticeKind, rank
from services.interruption.notices.scheduled_events import Maintenance, held_by
from services.interruption.self_managed_nodes.own_node import OwnNode
from shared.clock import Clock
from shared.domain.machines import Machine
from shared.errors import DovetailError
from shared.log import get_logger
from shared.settings import InterruptionSettings

log = get_logger(__name__)

PERIOD_SECONDS = 15.0


@dataclass
class WaitingSource:
    """``look`` now and then."""

    settings: InterruptionSettings
    backlog: Backlog
    directory: Directory | OwnNode
    clock: Clock
    _settled: set[str] = field(default_factory=set)
    """UIDs of machines that are being deleted, and nothing is left to tell about them."""

    async def look(self) -> None:
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
