"""What EC2 announces about instances, wherever it was read: pure.

Sources make Notices; the worker acts on them without knowing where they came from.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec


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
