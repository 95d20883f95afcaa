"""What each kind of notice asks for: pure (area 8.3)."""

from __future__ import annotations

import msgspec

from services.interruption.notices import notice
from shared.domain import labels as keys
from shared.domain.expressions import NO_SCHEDULE, Taint

NORMAL, WARNING = "Normal", "Warning"
OURS = "dovetail"
_UNHEALTHY = "Instance fails its status checks or is scheduled for maintenance"


class Action(msgspec.Struct, frozen=True):
    """``delete`` the Machine or only tell people by an event of ``reason`` and ``text``."""

    delete: bool
    reason: str
    text: str
    event_type: str = WARNING
    shortage: str = ""
    """Capacity type of the offering that is short from now on; empty: no offering is."""
    at_once: bool = False
    """No graceful drain: the termination timestamp is now."""


_ACTIONS = {
    notice.SPOT: Action(
        True, "SpotInterrupted", "Spot interruption warning was triggered", shortage=keys.SPOT
    ),
    notice.REBALANCE: Action(
        False,
        "SpotRebalanceRecommendation",
        "Spot rebalance recommendation was triggered",
        event_type=NORMAL,
    ),
    notice.STOPPED: Action(True, "InstanceStopping", "Instance is stopping"),
    notice.TERMINATED: Action(True, "InstanceTerminating", "Instance is terminating"),
    notice.SCHEDULED: Action(True, "InstanceUnhealthy", _UNHEALTHY),
    notice.EVENT_STATUS: Action(True, "InstanceUnhealthy", _UNHEALTHY),
    notice.INSTANCE_STATUS: Action(True, "InstanceUnhealthy", _UNHEALTHY, at_once=True),
    notice.SYSTEM_STATUS: Action(True, "InstanceUnhealthy", _UNHEALTHY, at_once=True),
    notice.SCHEDULED_OVER: Action(
        False,
        "ScheduledEventOver",
        "Scheduled event was cancelled or is over",
        event_type=NORMAL,
    ),
    notice.HEALED: Action(
        False, "InstanceHealthy", "Instance passes its status checks again", event_type=NORMAL
    ),
    notice.CAPACITY_RESERVATION: Action(
        True,
        "CapacityReservationInstanceInterrupted",
        "Capacity reservation takes the instance back",
        shortage=keys.RESERVED,
    ),
}


_TAINTS = {
    notice.SPOT: keys.SPOT_ITN_TAINT_KEY,
    notice.CAPACITY_RESERVATION: keys.SPOT_ITN_TAINT_KEY,
    notice.REBALANCE: keys.REBALANCE_TAINT_KEY,
    notice.INSTANCE_STATUS: keys.IMPAIRED_TAINT_KEY,
    notice.SYSTEM_STATUS: keys.IMPAIRED_TAINT_KEY,
}


def taint_for(kind: str) -> Taint:
    """INT-42: how a node is closed that is not taken away. The value tells our own from the Node Termination
    Handler's. What may be undone has a key of its own: two reasons on one key could not be told apart."""
    return Taint(_TAINTS.get(kind, keys.MAINTENANCE_TAINT_KEY), NO_SCHEDULE, OURS)


def action_for(kind: str) -> Action | None:
    """None: nothing to do but count."""
    return _ACTIONS.get(kind)
