"""The taint that closes a node because of a notice: pure (INT-42)."""

from __future__ import annotations

from services.interruption.notices.notice import NoticeKind
from shared.domain import labels as keys
from shared.domain.expressions import NO_SCHEDULE, Taint

OURS = "dovetail"
"""The value of every taint of this service: it differs from the Node Termination Handler's."""
_KEYS = {
    NoticeKind.SPOT: keys.SPOT_ITN_TAINT_KEY,
    NoticeKind.CAPACITY_RESERVATION: keys.SPOT_ITN_TAINT_KEY,
    NoticeKind.REBALANCE: keys.REBALANCE_TAINT_KEY,
    NoticeKind.INSTANCE_STATUS: keys.IMPAIRED_TAINT_KEY,
    NoticeKind.SYSTEM_STATUS: keys.IMPAIRED_TAINT_KEY,
}


def taint_for(kind: NoticeKind) -> Taint:
    """The taint for a node that is closed and not taken away; every kind without a key of its own gets maintenance's.

    A kind that may be undone has a key of its own: with one key for two reasons, nobody could say which of them ended.
    """
    return Taint(_KEYS.get(kind, keys.MAINTENANCE_TAINT_KEY), NO_SCHEDULE, OURS)
