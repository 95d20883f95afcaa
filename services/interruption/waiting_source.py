"""Machines that wait for a scheduled event, as a source of notices: when the lead time is reached, it is time to go.

What is waited for stands on the machines (``maintenance.py``) and is found in the mirror, so no restart forgets it. The
worker decides: it knows what the pool says now.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.interruption.backlog import Backlog, Entry
from services.interruption.directory import Directory
from services.interruption.maintenance import parse_maintenance
from services.interruption.notices import SCHEDULED, Notice, rank
from services.interruption.own_node import OwnNode
from services.interruption.policy import policy_of
from shared.clock import Clock
from shared.domain import labels as keys
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

    async def look(self) -> None:
        """Put a notice about each machine whose event is due into the backlog."""
        for instance, machine in self.directory.scheduled():
            held = parse_maintenance(machine.annotations.get(keys.MAINTENANCE_ANNOTATION, ""))
            if held is None or machine.terminating:
                continue
            try:
                policy = policy_of(await self.directory.pool(machine), self.settings)
            except DovetailError as error:
                log.warning("pool not known", machine=machine.name, error=error.message)
                continue
            now = self.clock.now()
            if now >= held.start - policy.lead_seconds:
                notice = Notice(
                    f"maintenance/{instance}", SCHEDULED, (instance,), now, held.start, now,
                    held.source, held.event,
                )  # fmt: skip
                await self.backlog.put(Entry(notice), rank(notice, 1))
