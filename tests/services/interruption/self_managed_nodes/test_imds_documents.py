"""Documents of the metadata service -> notices (INT-40, INT-41)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.interruption.notices.notice import IMDS, Maintenance, NoticeKind
from services.interruption.self_managed_nodes import imds_documents
from shared.concurrency.clock import parse_rfc3339
from shared.domain.labels import MAINTENANCE_ANNOTATION
from shared.domain.machines.machine import Machine
from shared.redis.bus import BadMessage
from tests.support.planning.builders import make_machine

NOW = 1_800_000_000.0
EVENT = {
    "NotBefore": "21 Jan 2027 09:00:43 GMT",
    "NotAfter": "21 Jan 2027 09:17:23 GMT",
    "Code": "system-reboot",
    "Description": "scheduled reboot",
    "EventId": "instance-event-0d59937288b749b32",
    "State": "active",
}


def scheduled(*events: Any) -> Any:
    return imds_documents.scheduled_notices(json.dumps(events), "i-1", now=NOW)


@pytest.mark.parametrize(
    "state", ["InService", "Standby", "Detached", "Warmed:Stopped", "", "<html>"]
)
def test_only_a_group_that_ends_the_instance_is_a_notice(state: str) -> None:
    """INT-41: lifecycle hooks."""
    found = imds_documents.lifecycle_notice(" Terminated\n", "i-1", now=NOW)
    assert found is not None
    assert (found.kind, found.instances, found.source, found.hook) == (
        NoticeKind.LIFECYCLE, ("i-1",), IMDS, None,
    )  # fmt: skip
    assert imds_documents.lifecycle_notice(state, "i-1", now=NOW) is None


def test_a_spot_action_ends_the_instance_at_its_time() -> None:
    text = '{"action": "terminate", "time": "2027-01-20T08:22:00Z"}'
    found = imds_documents.spot_notice(text, "i-1", now=NOW)
    assert (found.kind, found.instances, found.source) == (NoticeKind.SPOT, ("i-1",), IMDS)
    assert found.deadline == parse_rfc3339("2027-01-20T08:22:00Z")
    again = imds_documents.spot_notice(text, "i-1", now=found.deadline - 7)
    assert (
        again.at == found.deadline - 120
    )  # an agent that was killed and reads it again says the same


def test_a_recommendation_has_no_deadline() -> None:
    found = imds_documents.rebalance_notice(
        '{"noticeTime": "2027-01-20T08:22:00Z"}', "i-1", now=NOW
    )
    assert (found.kind, found.deadline) == (NoticeKind.REBALANCE, None)
    assert found.at == parse_rfc3339("2027-01-20T08:22:00Z")


def test_a_scheduled_event_has_its_start_and_name() -> None:
    (found,) = scheduled(EVENT)
    assert (found.kind, found.event) == (NoticeKind.SCHEDULED, EVENT["EventId"])
    assert found.deadline == parse_rfc3339("2027-01-21T09:00:43Z")


def test_a_long_name_of_an_event_still_fits_into_messages() -> None:
    """The id is their cause, of 128 characters at most."""
    (found,) = scheduled({**EVENT, "EventId": "x" * 400})
    assert len(found.event) == 300
    held = Maintenance(NOW, IMDS, found.event)
    waiting = make_machine("a", annotations={MAINTENANCE_ANNOTATION: held.text})
    (over,) = imds_documents.called_off([("i-0123456789abcdef0", waiting)], [], now=NOW)
    assert over.event == found.event
    assert max(len(found.id), len(over.id)) <= 110


@pytest.mark.parametrize("state", ["canceled", "completed", None])
def test_an_event_that_will_not_happen_is_none(state: str | None) -> None:
    assert scheduled({**EVENT, "State": state}) == []


def test_an_event_that_is_moved_is_announced_again() -> None:
    (first,), (second,) = (
        scheduled(EVENT),
        scheduled({**EVENT, "NotBefore": "22 Jan 2027 09:00:43 GMT"}),
    )
    assert first.id != second.id
    assert first.event == second.event


def waiting(source: str, event: str) -> tuple[str, Machine]:
    text = Maintenance(NOW, source, event).text
    return "i-1", make_machine("m", annotations={MAINTENANCE_ANNOTATION: text})


def test_an_event_that_is_no_longer_listed_is_called_off() -> None:
    held = waiting(IMDS, EVENT["EventId"])
    assert imds_documents.called_off([held], scheduled(EVENT), now=NOW) == []
    (over,) = imds_documents.called_off([held], [], now=NOW)
    assert (over.kind, over.event, over.source) == (
        NoticeKind.SCHEDULED_OVER,
        EVENT["EventId"],
        IMDS,
    )


def test_what_somebody_else_announced_is_theirs_to_call_off() -> None:
    assert imds_documents.called_off([waiting("sqs", "arn:1")], [], now=NOW) == []


def read_all(text: str) -> None:
    for read in (
        imds_documents.spot_notice,
        imds_documents.rebalance_notice,
        imds_documents.scheduled_notices,
    ):
        try:
            read(text, "i-1", now=NOW)
        except BadMessage:
            continue


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"time": 7}', '[{"State": "active"}]'])
def test_a_broken_document_is_told_and_is_no_notice(text: str) -> None:
    with pytest.raises(BadMessage):
        imds_documents.spot_notice(text, "i-1", now=NOW)
    read_all(text)


@given(st.text(max_size=80) | st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["time", "noticeTime", "NotBefore", "State", "EventId"]), inner),
).map(json.dumps))  # fmt: skip
def test_whatever_is_answered_the_agent_goes_on(text: str) -> None:
    read_all(text)
