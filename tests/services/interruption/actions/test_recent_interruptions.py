"""How much time is left for machines that EC2 takes back: for the alert, and for whoever looks."""

from __future__ import annotations

from msgspec.structs import replace

from services.interruption.actions.recent_interruptions import RecentInterruptions
from services.interruption.notices.notice import Notice, NoticeKind
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_machine

NOW = 1.7e9
METRIC = "dovetail_interruption_deadline_seconds"


def noted(name: str, *deadlines: float | None) -> RecentInterruptions:
    recent = RecentInterruptions()
    machine = replace(make_machine(name), node_name=f"node-{name}")
    for number, deadline in enumerate(deadlines):
        notice = Notice(f"event-{number}", NoticeKind.SPOT, ("i-1",), deadline=deadline)
        recent.note(machine, notice, now=NOW)
    return recent


def left(recent: RecentInterruptions, *, exists: bool = True) -> dict[str, float]:
    return Scraped(recent.deadline_text(lambda _: exists, now=NOW)).of(METRIC, "node")


def test_the_time_until_the_deadline_counts_down_and_goes_below_zero() -> None:
    assert left(noted("a", NOW + 90)) == {"node-a": 90}
    assert left(noted("a", NOW - 5)) == {"node-a": -5}


def test_a_machine_that_is_gone_has_no_deadline() -> None:
    assert left(noted("a", NOW + 90), exists=False) == {}


def test_a_notice_without_a_deadline_is_left_out() -> None:
    assert left(noted("a", None)) == {}


def test_of_several_notices_the_latest_counts() -> None:
    assert left(noted("a", NOW + 120, NOW + 40)) == {"node-a": 40}
