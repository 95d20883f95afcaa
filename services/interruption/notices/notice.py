"""What EC2 announces about instances, wherever it was read, and the traces that a notice leaves: pure.

Sources make Notices; the worker acts on them without knowing where they came from. A scheduled event is written on the
Machine that waits for it, as an annotation: SQS keeps a message for minutes and an event may be days away, so it must
stand where a restart finds it. A taint closes a node because of a notice (INT-42).
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.expressions import NO_SCHEDULE, Taint
from shared.domain.machines.machine import Machine

UNNAMED = "-"
OUR_TAINT_VALUE = "dovetail"
"""The value of every taint of this service: it differs from the Node Termination Handler's."""


class NoticeKind(StrEnum):
    """What was announced. The values are labels of metrics and parts of ids: they never change."""

    SPOT = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    STOPPED = "instance_stopped"
    TERMINATED = "instance_terminated"
    SCHEDULED = "scheduled_change"
    CAPACITY_RESERVATION = "capacity_reservation_interrupted"
    INSTANCE_STATUS = "instance_status"
    SYSTEM_STATUS = "system_status"
    EVENT_STATUS = "event_status"
    NO_OP = "no_op"
    LIFECYCLE = "asg_lifecycle_termination"
    """An auto scaling group ends an instance, and its lifecycle hook waits for Dovetail."""
    SCHEDULED_OVER = "scheduled_change_over"
    """A scheduled event was cancelled, or is over."""
    HEALED = "status_checks_passed"
    """An instance whose node was closed passes its status checks again."""


_TAINT_KEYS = {
    NoticeKind.SPOT: keys.SPOT_ITN_TAINT_KEY,
    NoticeKind.CAPACITY_RESERVATION: keys.SPOT_ITN_TAINT_KEY,
    NoticeKind.REBALANCE: keys.REBALANCE_TAINT_KEY,
    NoticeKind.INSTANCE_STATUS: keys.IMPAIRED_TAINT_KEY,
    NoticeKind.SYSTEM_STATUS: keys.IMPAIRED_TAINT_KEY,
}
QUEUE = "sqs"
STATUS_CHECKS = "instance status"
IMDS = "imds"

ANNOUNCED = frozenset({NoticeKind.SCHEDULED, NoticeKind.EVENT_STATUS})
"""Kinds whose deadline may be days away."""
ENDED = frozenset({NoticeKind.STOPPED, NoticeKind.TERMINATED})
"""Kinds that say that the instance has ended or is ending, whatever anybody does."""
OVER = frozenset({NoticeKind.SCHEDULED_OVER, NoticeKind.HEALED})
"""Kinds that undo what an earlier notice did."""
PATIENT = frozenset({NoticeKind.REBALANCE, NoticeKind.NO_OP, *OVER})
"""Kinds that may wait behind all others without loss."""
NOTICE_SECONDS = 120.0
"""From EC2's warning to the end of the instance."""
SAME_DEADLINE_SECONDS = 5.0
"""Deadlines this close together count as equal: then the notice about more Machines goes first."""

Rank = tuple[bool, float, int, float]


class HookName(msgspec.Struct, frozen=True):
    """Which lifecycle hook waits, and the token of this wait."""

    group: str
    name: str
    token: str = ""


class Notice(msgspec.Struct, frozen=True):
    """One announcement. All times are seconds since the epoch."""

    id: str
    kind: NoticeKind
    instances: tuple[str, ...] = ()
    at: float | None = None
    """When EC2 announced it (INT-24)."""
    deadline: float | None = None
    """When the instances end or ended, if EC2 named a time."""
    received_at: float = 0.0
    source: str = QUEUE
    event: str = ""
    """What EC2 or Health call the scheduled event; empty: not known."""
    hook: HookName | None = None
    """Only of a lifecycle notice from the queue; the instance metadata name no hook."""


def rank(notice: Notice, ours: int) -> Rank:
    """Smaller goes first: urgent kinds, then the earlier deadline, then the larger loss, then the older notice.

    ``ours``: how many of its instances belong to Machines.
    """
    due = math.inf
    if notice.deadline is not None:
        due = notice.deadline // SAME_DEADLINE_SECONDS
    at = notice.received_at if notice.at is None else notice.at
    return (notice.kind in PATIENT, due, -ours, at)


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
    announced = notice.received_at if notice.at is None else notice.at
    start = announced if notice.deadline is None else notice.deadline
    return Maintenance(start, notice.source, notice.event)


def ends(notice: Notice, held: Maintenance) -> bool:
    """Is the event that ``notice`` says is over the one that the Machine waits for?

    Sources name the same event differently, so only the source that announced it can end it.
    """
    named = bool(notice.event and held.event)
    return notice.source == held.source and (not named or notice.event == held.event)


def taint_for(kind: NoticeKind) -> Taint:
    """The taint for a node that is closed and not taken away; every kind without a key of its own gets maintenance's.

    A kind that may be undone has a key of its own: with one key for two reasons, nobody could say which of them ended.
    """
    return Taint(_TAINT_KEYS.get(kind, keys.MAINTENANCE_TAINT_KEY), NO_SCHEDULE, OUR_TAINT_VALUE)
