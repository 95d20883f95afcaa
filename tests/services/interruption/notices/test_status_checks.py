"""Status problems become notices when they last (INT-15, INT-30)."""

from __future__ import annotations

import pytest

from services.interruption.notices.notice import STATUS_CHECKS, NoticeKind
from services.interruption.notices.status_checks import (
    first_seen,
    healed,
    notice_of,
    passing_since,
    serious,
)
from shared.cloud.ec2.instance_status import (
    EVENT_STATUS,
    INSTANCE_STATUS,
    SYSTEM_STATUS,
    StatusProblem,
)

NOW = 10_000.0


@pytest.mark.parametrize("category", [INSTANCE_STATUS, SYSTEM_STATUS])
@pytest.mark.parametrize(("lasted", "acts"), [(0.0, False), (119.0, False), (120.0, True)])
def test_a_failed_check_counts_after_two_minutes(category: str, lasted: float, acts: bool) -> None:
    problem = StatusProblem("i-1", category, since=NOW - lasted)
    since = first_seen([problem], {}, now=NOW)
    assert serious([problem], since, now=NOW) == ([problem] if acts else [])


def test_a_scheduled_event_counts_at_once() -> None:
    problem = StatusProblem("i-1", EVENT_STATUS, due=NOW + 86_400)
    since = first_seen([problem], {}, now=NOW)
    assert serious([problem], since, now=NOW) == [problem]
    found = notice_of(problem, since["i-1", EVENT_STATUS], now=NOW)
    assert (found.kind, found.instances, found.deadline) == (
        NoticeKind.EVENT_STATUS, ("i-1",), NOW + 86_400,
    )  # fmt: skip


def test_without_a_time_from_ec2_it_counts_from_when_we_saw_it_first() -> None:
    problem = StatusProblem("i-1", SYSTEM_STATUS)
    since = first_seen([problem], {}, now=NOW)
    later = first_seen([problem], since, now=NOW + 120)
    assert serious([problem], later, now=NOW + 119) == []
    assert serious([problem], later, now=NOW + 120) == [problem]


def test_what_healed_begins_anew() -> None:
    problem = StatusProblem("i-1", SYSTEM_STATUS)
    since = first_seen([problem], {}, now=NOW)
    healed = first_seen([], since, now=NOW + 60)
    again = first_seen([problem], healed, now=NOW + 200)
    assert serious([problem], again, now=NOW + 200) == []


def test_a_failed_check_is_due_now_and_its_latency_counts_from_its_beginning() -> None:
    """INT-24: time of a notice."""
    problem = StatusProblem("i-1", INSTANCE_STATUS, since=NOW - 300)
    found = notice_of(problem, NOW - 300, now=NOW)
    assert (found.at, found.deadline, found.source) == (NOW - 300, NOW, STATUS_CHECKS)


@pytest.mark.parametrize(("lasted", "believed"), [(0.0, False), (119.0, False), (120.0, True)])
def test_an_instance_is_healthy_again_after_two_minutes(lasted: float, believed: bool) -> None:
    """A check that passes for a moment may fail again: no node is opened and closed in turns."""
    passing = passing_since(["i-1"], [], {}, now=NOW)
    passing = passing_since(["i-1"], [], passing, now=NOW + lasted)
    found = [(n.kind, n.instances) for n in healed(passing, now=NOW + lasted)]
    assert found == ([(NoticeKind.HEALED, ("i-1",))] if believed else [])


@pytest.mark.parametrize("category", [INSTANCE_STATUS, SYSTEM_STATUS])
def test_one_check_that_fails_however_briefly_is_not_healthy(category: str) -> None:
    before = {"i-1": NOW - 300}
    assert (
        passing_since(["i-1"], [StatusProblem("i-1", category, since=NOW)], before, now=NOW) == {}
    )


def test_a_scheduled_event_says_nothing_about_the_checks() -> None:
    event = StatusProblem("i-1", EVENT_STATUS, due=NOW + 60)
    assert passing_since(["i-1"], [event], {}, now=NOW) == {"i-1": NOW}


def test_only_instances_whose_nodes_are_closed_can_heal() -> None:
    assert passing_since([], [], {"i-1": NOW - 300}, now=NOW) == {}
