"""What each kind of notice asks for: pure (INT-16). The table is Karpenter's."""

from __future__ import annotations

import msgspec

from services.interruption.notices.notice import NoticeKind
from shared.domain import labels as keys

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
