"""What each kind of notice asks for, what a pool wants done about it, and so what is done now: pure (INT-16, INT-40,
INT-43).

Without annotations and settings this is Karpenter's table: a recommendation is only reported, everything else deletes
the machine at once.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from services.interruption.notices.notice import ANNOUNCED, ENDED, OVER, Notice, NoticeKind, held_by
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import CORDON, DELETE, DRAIN, DRY_RUN, IGNORE, NodePool
from shared.settings import InterruptionSettings

NORMAL, WARNING = "Normal", "Warning"
_UNHEALTHY = "Instance fails its status checks or is scheduled for maintenance"


class Action(msgspec.Struct, frozen=True):
    """``delete`` the Machine, or only publish an event of ``reason`` and ``text``."""

    delete: bool
    reason: str
    text: str
    event_type: str = WARNING
    shortage: str = ""
    """Capacity type of the offering that is unavailable from now on; empty: none is."""
    at_once: bool = False
    """No graceful drain: the termination timestamp is now."""


_ACTIONS = {
    NoticeKind.SPOT: Action(
        True, "SpotInterrupted", "Spot interruption warning was triggered", shortage=keys.SPOT
    ),
    NoticeKind.REBALANCE: Action(
        False,
        "SpotRebalanceRecommendation",
        "Spot rebalance recommendation was triggered",
        event_type=NORMAL,
    ),
    NoticeKind.STOPPED: Action(True, "InstanceStopping", "Instance is stopping"),
    NoticeKind.TERMINATED: Action(True, "InstanceTerminating", "Instance is terminating"),
    NoticeKind.SCHEDULED: Action(True, "InstanceUnhealthy", _UNHEALTHY),
    NoticeKind.EVENT_STATUS: Action(True, "InstanceUnhealthy", _UNHEALTHY),
    NoticeKind.INSTANCE_STATUS: Action(True, "InstanceUnhealthy", _UNHEALTHY, at_once=True),
    NoticeKind.SYSTEM_STATUS: Action(True, "InstanceUnhealthy", _UNHEALTHY, at_once=True),
    NoticeKind.SCHEDULED_OVER: Action(
        False,
        "ScheduledEventOver",
        "Scheduled event was cancelled or is over",
        event_type=NORMAL,
    ),
    NoticeKind.HEALED: Action(
        False, "InstanceHealthy", "Instance passes its status checks again", event_type=NORMAL
    ),
    NoticeKind.CAPACITY_RESERVATION: Action(
        True,
        "CapacityReservationInstanceInterrupted",
        "Capacity reservation takes the instance back",
        shortage=keys.RESERVED,
    ),
}


def action_for(kind: NoticeKind) -> Action | None:
    """None: nothing to do but count."""
    return _ACTIONS.get(kind)


class Step(StrEnum):
    """What is done with one machine. The values are in webhook posts and events."""

    DELETE = "delete"
    CORDON = "cordon"
    """Close the node and leave its pods alone."""
    REPLACE = "replace"
    """Have the scheduler buy the replacement first."""
    WAIT = "wait"
    """Until the pool's lead time before the scheduled event."""
    REPORT = "tell"
    """Only report it."""
    REOPEN = "reopen"
    """Undo what an earlier notice did."""


class Policy(msgspec.Struct, frozen=True):
    """One pool's choices. ``lead_seconds``: how long before its start a scheduled event is acted on."""

    mode: str = DELETE
    rebalance: str = IGNORE
    lead_seconds: float = float("inf")
    webhook: bool = True

    @property
    def dry_run(self) -> bool:
        return self.mode == DRY_RUN


def policy_of(pool: NodePool | None, settings: InterruptionSettings) -> Policy:
    """What the pool says, else what the settings say."""
    if pool is None:
        pool = NodePool(uid="", name="")
    lead = pool.maintenance_lead_seconds
    return Policy(
        mode=pool.interruption or settings.interruption_mode,
        rebalance=pool.rebalance or settings.rebalance,
        lead_seconds=settings.maintenance_lead if lead is None else lead,
        webhook=not pool.webhook_off,
    )


def step_for(notice: Notice, policy: Policy, *, now: float) -> Step:
    """What to do with a machine now; in a dry run, what would be done. ``now``: seconds since the epoch."""
    if notice.kind in OVER:
        return Step.REOPEN
    if notice.kind == NoticeKind.REBALANCE:
        return _for_recommendation(policy)
    early = notice.deadline is not None and now < notice.deadline - policy.lead_seconds
    if notice.kind in ANNOUNCED and early:
        return Step.WAIT
    # An instance that has ended needs its record and its node gone, whatever a pool thinks of draining.
    return Step.CORDON if policy.mode == CORDON and notice.kind not in ENDED else Step.DELETE


def caused(notice: Notice, machine: Machine, policy: Policy) -> bool:
    """Was this machine deleted because of ``notice``, perhaps by a process that was killed before it reported that?

    Then its deletion timestamp, which has whole seconds only, is not older than the announcement. EC2 announces the end
    of every instance, also of those that Dovetail ends for another reason: an equal second is no proof then. Only the
    queue says when a scheduled event was announced; for the other sources the annotation on the machine decides.
    """
    if not machine.terminating:
        return False
    if notice.at is None:
        return _went_for_event(notice, machine, policy)
    announced = int(notice.at)
    return (
        machine.deleted_at > announced if notice.kind in ENDED else machine.deleted_at >= announced
    )


def _went_for_event(notice: Notice, machine: Machine, policy: Policy) -> bool:
    """Was it deleted when the event that stands on it was due?"""
    held = held_by(machine)
    if notice.kind not in ANNOUNCED or held is None:
        return False
    same = (held.source, held.event) == (notice.source, notice.event)
    return same and machine.deleted_at + 1 > held.start - policy.lead_seconds


def _for_recommendation(policy: Policy) -> Step:
    if policy.rebalance == IGNORE:
        return Step.REPORT
    drains = policy.rebalance == DRAIN and policy.mode != CORDON
    return Step.REPLACE if drains else Step.CORDON
