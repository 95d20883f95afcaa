"""The event that a machine waits for survives in an annotation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.interruption.notices.notice import (
    IMDS,
    QUEUE,
    STATUS_CHECKS,
    Maintenance,
    Notice,
    NoticeKind,
    ends,
    maintenance_of,
    parse_maintenance,
)

SOURCES = (QUEUE, STATUS_CHECKS, IMDS)
events = st.text(st.characters(exclude_categories=["Z", "C"]), max_size=40).filter(
    lambda name: name != "-"
)


@given(st.integers(0, 4_000_000_000), st.sampled_from(SOURCES), events)
def test_what_is_written_is_read(start: int, source: str, event: str) -> None:
    held = Maintenance(float(start), source, event)
    assert parse_maintenance(held.text) == held


@given(st.text(max_size=60))
def test_any_other_text_means_nothing_and_harms_nothing(text: str) -> None:
    found = parse_maintenance(text)
    assert found is None or isinstance(found, Maintenance)


@pytest.mark.parametrize(
    "text", ["", "soon sqs -", "2027-01-27T06:00:00Z", "2027-01-27T06:00:00Z sqs a b"]
)
def test_what_we_did_not_write_is_not_ours(text: str) -> None:
    assert parse_maintenance(text) is None


@pytest.mark.parametrize(
    ("source", "event", "over"),
    [
        (QUEUE, "arn:1", True),
        (QUEUE, "", True),
        (QUEUE, "arn:2", False),
        (STATUS_CHECKS, "", False),
        (IMDS, "arn:1", False),
    ],
)
def test_only_its_own_source_calls_an_event_off(source: str, event: str, over: bool) -> None:
    """EC2 may list an event that Health has not heard of, and the other way round."""
    held = maintenance_of(Notice("n", NoticeKind.SCHEDULED, ("i-1",), deadline=60.0, event="arn:1"))
    said = Notice("n", NoticeKind.SCHEDULED_OVER, ("i-1",), source=source, event=event)
    assert ends(said, held) is over
