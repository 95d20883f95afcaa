"""What each kind of interruption asks for: pure (area 8.3)."""

from __future__ import annotations

import msgspec

from services.interruption import parsers


class Action(msgspec.Struct, frozen=True):
    """``delete`` the Machine or only tell; ``shortage``: the offering is marked unavailable."""

    delete: bool
    reason: str
    text: str
    warning: bool = True
    shortage: bool = False


_ACTIONS = {
    parsers.SPOT: Action(
        True, "SpotInterrupted", "Spot interruption warning was triggered", shortage=True
    ),
    parsers.REBALANCE: Action(
        False, "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered", False
    ),
    parsers.STOPPED: Action(True, "InstanceStopping", "Instance is stopping"),
    parsers.TERMINATED: Action(True, "InstanceTerminating", "Instance is terminating"),
    parsers.SCHEDULED: Action(True, "InstanceUnhealthy", "Scheduled maintenance of the instance"),
}


def action_for(kind: str) -> Action | None:
    """None: nothing to do but count."""
    return _ACTIONS.get(kind)
