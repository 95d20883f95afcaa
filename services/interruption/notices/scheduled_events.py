"""The scheduled event that a Machine waits for, as an annotation of the Machine: pure.

SQS keeps a message for minutes and an event may be days away, so it must stand where a restart finds it.
"""

from __future__ import annotations

import msgspec

from services.interruption.notices.notice import Notice
from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine

UNNAMED = "-"


class Maintenance(msgspec.Struct, frozen=True):
    """``start``: seconds since the epoch. ``source`` and ``event``: who announced it, and what they call it."""

    start: float
    source: str
    event: str = ""

    @property
    def text(self) -> str:
        """``2027-01-27T06:00:00Z imds instance-event-0a1b``."""
        source = self.source.replace(" ", "-")
        return f"{rfc3339(self.start)} {source} {self.event or UNNAMED}"


def parse_maintenance(text: str) -> Maintenance | None:
    """None for a text that this service did not write."""
    parts = text.split(" ")
    if len(parts) != 3:
        return None
    try:
        start = parse_rfc3339(parts[0])
    except (ValueError, OverflowError):
        return None
    return Maintenance(start, parts[1].replace("-", " "), "" if parts[2] == UNNAMED else parts[2])


def held_by(machine: Machine) -> Maintenance | None:
    """The event that is written on this Machine; None: none is."""
    return parse_maintenance(machine.annotations.get(keys.MAINTENANCE_ANNOTATION, ""))


def maintenance_of(notice: Notice) -> Maintenance:
    """The event that a notice announces; one without a start begins at its announcement."""
    said = notice.received_at if notice.at is None else notice.at
    start = said if notice.deadline is None else notice.deadline
    return Maintenance(start, notice.source, notice.event)


def ends(notice: Notice, held: Maintenance) -> bool:
    """Is the event that ``notice`` says is over the one that the Machine waits for?

    Sources name the same event differently, so only the source that announced it can end it.
    """
    named = bool(notice.event and held.event)
    return notice.source == held.source and (not named or notice.event == held.event)
