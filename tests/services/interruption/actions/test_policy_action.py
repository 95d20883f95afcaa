"""What each kind of notice asks for: the table of 8.3."""

from __future__ import annotations

import pytest

from services.interruption.actions.policy import NORMAL, WARNING, action_for
from services.interruption.notices.notice import NoticeKind

TABLE = [
    (NoticeKind.SPOT, True, "SpotInterrupted", WARNING, "spot", False),
    (NoticeKind.REBALANCE, False, "SpotRebalanceRecommendation", NORMAL, "", False),
    (NoticeKind.SCHEDULED, True, "InstanceUnhealthy", WARNING, "", False),
    (NoticeKind.EVENT_STATUS, True, "InstanceUnhealthy", WARNING, "", False),
    (NoticeKind.STOPPED, True, "InstanceStopping", WARNING, "", False),
    (NoticeKind.TERMINATED, True, "InstanceTerminating", WARNING, "", False),
    (
        NoticeKind.CAPACITY_RESERVATION,
        True, "CapacityReservationInstanceInterrupted", WARNING, "reserved", False,
    ),
    (NoticeKind.INSTANCE_STATUS, True, "InstanceUnhealthy", WARNING, "", True),
    (NoticeKind.SYSTEM_STATUS, True, "InstanceUnhealthy", WARNING, "", True),
    (NoticeKind.SCHEDULED_OVER, False, "ScheduledEventOver", NORMAL, "", False),
    (NoticeKind.HEALED, False, "InstanceHealthy", NORMAL, "", False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "delete", "reason", "event_type", "shortage", "at_once"), TABLE)
def test_each_kind_has_its_action(
    kind: NoticeKind, delete: bool, reason: str, event_type: str, shortage: str, at_once: bool
) -> None:
    """8.3; INT-40: a recommendation deletes nothing."""
    action = action_for(kind)
    assert action is not None
    assert (action.delete, action.reason, action.event_type) == (delete, reason, event_type)
    assert (action.shortage, action.at_once) == (shortage, at_once)


@pytest.mark.parametrize("kind", [NoticeKind.NO_OP, "unheard of"])
def test_nothing_is_done_about_the_others(kind: NoticeKind) -> None:
    """INT-05: how a message's kind is found."""
    assert action_for(kind) is None
