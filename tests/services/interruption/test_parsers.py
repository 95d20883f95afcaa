"""EventBridge messages (INT-05, INT-10..INT-14): what is not understood is no_op, never a crash."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.interruption import parsers
from services.interruption.actions import action_for
from services.interruption.parsers import Interruption, parse
from shared.bus import BadMessage

SPOT_TYPE = "EC2 Spot Instance Interruption Warning"
STATE_TYPE = "EC2 Instance State-change Notification"
TYPES = (SPOT_TYPE, STATE_TYPE, "EC2 Instance Rebalance Recommendation", "AWS Health Event")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)


def body(detail_type: str, detail: Any, source: str = "aws.ec2", **changes: Any) -> str:
    """One EventBridge document."""
    document = {
        "version": "0",
        "id": "event-1",
        "source": source,
        "detail-type": detail_type,
        "time": "2026-01-01T00:00:00Z",
        "detail": detail,
    }
    return json.dumps({**document, **changes})


def health(**changes: Any) -> str:
    detail = {
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}],
    }
    return body("AWS Health Event", {**detail, **changes}, source="aws.health")


def test_a_spot_warning_names_the_instance_and_its_end() -> None:
    """INT-10: two minutes from the notice."""
    detail = {"instance-id": "i-1", "instance-action": "terminate"}
    assert parse(body(SPOT_TYPE, detail)) == Interruption(
        "event-1", parsers.SPOT, ("i-1",), 1767225600.0 + 120
    )


@pytest.mark.parametrize("time", [None, "soon", 5])
def test_a_spot_warning_without_time_has_no_deadline(time: Any) -> None:
    """It is acted on all the same."""
    found = parse(body(SPOT_TYPE, {"instance-id": "i-1"}, time=time))
    assert (found.kind, found.instances, found.deadline) == (parsers.SPOT, ("i-1",), None)


def test_a_rebalance_recommendation_is_recognised() -> None:
    """INT-11."""
    found = parse(body("EC2 Instance Rebalance Recommendation", {"instance-id": "i-1"}))
    assert found == Interruption("event-1", parsers.REBALANCE, ("i-1",))


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("stopping", parsers.STOPPED),
        ("Stopped", parsers.STOPPED),
        ("shutting-down", parsers.TERMINATED),
        ("TERMINATED", parsers.TERMINATED),
        ("pending", parsers.NO_OP),
        ("running", parsers.NO_OP),
        (None, parsers.NO_OP),
    ],
)
def test_state_changes_count_when_the_instance_ends(state: str | None, kind: str) -> None:
    """INT-12."""
    assert parse(body(STATE_TYPE, {"instance-id": "i-1", "state": state})).kind == kind


def test_a_scheduled_change_may_name_many_instances() -> None:
    """INT-13."""
    assert parse(health()) == Interruption("event-1", parsers.SCHEDULED, ("i-1", "i-2"))


@pytest.mark.parametrize(
    "change", [{"service": "RDS"}, {"eventTypeCategory": "issue"}, {"service": None}]
)
def test_other_health_events_are_not_ours(change: dict[str, Any]) -> None:
    """INT-13."""
    assert parse(health(**change)).kind == parsers.NO_OP


@pytest.mark.parametrize("entities", [None, {}, "i-1", [None, 5, {}, {"entityValue": 7}]])
def test_a_health_event_without_readable_instances_names_none(entities: Any) -> None:
    assert parse(health(affectedEntities=entities)).instances == ()


@pytest.mark.parametrize(
    "change", [{"version": "1"}, {"source": "aws.s3"}, {"detail-type": "Other"}, {"version": 0}]
)
def test_an_unknown_triple_is_no_op(change: dict[str, Any]) -> None:
    """INT-05: counted and deleted."""
    document = json.loads(body(SPOT_TYPE, {"instance-id": "i-1"}))
    version_zero_as_number = change == {"version": 0}
    expected = parsers.SPOT if version_zero_as_number else parsers.NO_OP
    assert parse(json.dumps({**document, **change})).kind == expected


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "null", '"x"', '{"detail": 5}', '{"detail": null}']
)
def test_what_is_no_event_is_a_bad_message(text: str) -> None:
    """INT-04, scenario 77."""
    with pytest.raises(BadMessage):
        parse(text)


@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))))
def test_no_text_raises_anything_but_bad_message(text: str) -> None:
    with contextlib.suppress(BadMessage):
        parse(text)


@given(JSON.map(json.dumps))
def test_no_json_raises_anything_but_bad_message(text: str) -> None:
    with contextlib.suppress(BadMessage):
        parse(text)


@given(
    st.sampled_from(TYPES),
    st.sampled_from(["aws.ec2", "aws.health"]),
    st.dictionaries(
        st.sampled_from(
            ["instance-id", "state", "service", "eventTypeCategory", "affectedEntities"]
        ),
        JSON | st.sampled_from(["EC2", "scheduledChange", "stopping"]),
    ),
    JSON,
)
def test_no_detail_raises_anything(kind: str, source: str, detail: Any, time: Any) -> None:
    found = parse(body(kind, detail, source, time=time, id=time))
    assert found.event
    assert all(isinstance(name, str) and name for name in found.instances)


@pytest.mark.parametrize(
    ("kind", "deletes", "shortage"),
    [
        (parsers.SPOT, True, True),
        (parsers.STOPPED, True, False),
        (parsers.TERMINATED, True, False),
        (parsers.SCHEDULED, True, False),
        (parsers.REBALANCE, False, False),
    ],
)
def test_all_but_a_recommendation_delete_and_only_spot_is_a_shortage(
    kind: str, deletes: bool, shortage: bool
) -> None:
    """INT-20, INT-40."""
    action = action_for(kind)
    assert action is not None
    assert (action.delete, action.shortage) == (deletes, shortage)


def test_no_op_is_no_action() -> None:
    """INT-05."""
    assert action_for(parsers.NO_OP) is None
    assert action_for("unheard of") is None
