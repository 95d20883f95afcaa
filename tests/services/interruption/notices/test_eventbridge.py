"""EventBridge messages (INT-05, INT-10..INT-14): read, ignored or refused, never a crash."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.interruption.actions.policy import action_for
from services.interruption.notices.eventbridge import parse
from services.interruption.notices.notice import HookName, Notice, NoticeKind
from shared.redis.bus import BadMessage

SPOT_TYPE = "EC2 Spot Instance Interruption Warning"
STATE_TYPE = "EC2 Instance State-change Notification"
REBALANCE_TYPE = "EC2 Instance Rebalance Recommendation"
RESERVATION_TYPE = "EC2 Capacity Reservation Instance Interruption Warning"
LIFECYCLE_TYPE = "EC2 Instance-terminate Lifecycle Action"
TYPES = (
    SPOT_TYPE, STATE_TYPE, REBALANCE_TYPE, RESERVATION_TYPE, "AWS Health Event", LIFECYCLE_TYPE,
)  # fmt: skip
HOOK = {
    "LifecycleActionToken": "87654321-4321-4321-4321-210987654321",
    "AutoScalingGroupName": "workers",
    "LifecycleHookName": "drain",
    "EC2InstanceId": "i-1",
    "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
}
AT = 1767225600.0
"""2026-01-01T00:00:00Z."""
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
    assert parse(body(SPOT_TYPE, detail), received_at=5.0) == Notice(
        "event-1", NoticeKind.SPOT, ("i-1",), AT, AT + 120, 5.0
    )


def test_a_capacity_reservation_warning_too() -> None:
    """INT-14: a reservation that takes its instance back."""
    detail = {"instance-id": "i-1", "instance-action": "terminate"}
    assert parse(body(RESERVATION_TYPE, detail)) == Notice(
        "event-1", NoticeKind.CAPACITY_RESERVATION, ("i-1",), AT, AT + 120
    )


@pytest.mark.parametrize("time", [None, "soon", 5])
def test_a_spot_warning_without_time_has_no_deadline(time: Any) -> None:
    """It is acted on all the same."""
    found = parse(body(SPOT_TYPE, {"instance-id": "i-1"}, time=time))
    assert (found.kind, found.instances, found.deadline) == (NoticeKind.SPOT, ("i-1",), None)


def test_a_rebalance_recommendation_is_recognised() -> None:
    """INT-11: rebalance messages."""
    found = parse(body("EC2 Instance Rebalance Recommendation", {"instance-id": "i-1"}))
    assert found == Notice("event-1", NoticeKind.REBALANCE, ("i-1",), AT)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("stopping", NoticeKind.STOPPED),
        ("Stopped", NoticeKind.STOPPED),
        ("shutting-down", NoticeKind.TERMINATED),
        ("TERMINATED", NoticeKind.TERMINATED),
        ("pending", NoticeKind.NO_OP),
        ("running", NoticeKind.NO_OP),
    ],
)
def test_state_changes_count_when_the_instance_ends(state: str, kind: str) -> None:
    """INT-12: there is nothing to wait for, so they are due at once."""
    found = parse(body(STATE_TYPE, {"instance-id": "i-1", "state": state}))
    assert found.kind == kind
    assert found.deadline == (None if kind == NoticeKind.NO_OP else AT)


def test_a_scheduled_change_may_name_many_instances() -> None:
    """INT-13: its start is written as in mail."""
    found = parse(health(startTime="Thu, 01 Jan 2026 00:00:10 GMT"))
    assert found == Notice("event-1", NoticeKind.SCHEDULED, ("i-1", "i-2"), AT, AT + 10)


@pytest.mark.parametrize("start", [None, "soon", 5, "Thu, 99 Jan 2026 00:00:10 GMT"])
def test_a_scheduled_change_without_a_start_is_acted_on_all_the_same(start: Any) -> None:
    found = parse(health(startTime=start))
    assert (found.kind, found.instances, found.deadline) == (
        NoticeKind.SCHEDULED, ("i-1", "i-2"), None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"service": "RDS"},
        {"eventTypeCategory": "issue"},
        {"service": None},
    ],
)
def test_other_health_events_are_not_ours(change: dict[str, Any]) -> None:
    """INT-13: AWS Health events."""
    assert parse(health(**change)).kind == NoticeKind.NO_OP


def test_a_closed_event_undoes_what_it_announced() -> None:
    """INT-13: by the name that all its messages share."""
    arn = "arn:aws:health:us-west-2::event/EC2/retirement/1"
    open_, closed = (parse(health(statusCode=s, eventArn=arn)) for s in ("open", "closed"))
    assert open_.kind == NoticeKind.SCHEDULED
    assert (closed.kind, closed.instances) == (NoticeKind.SCHEDULED_OVER, open_.instances)
    assert closed.event == open_.event == arn


DIRECT = {
    **HOOK,
    "Service": "AWS Auto Scaling",
    "Time": "2026-01-01T00:00:00.000Z",
    "RequestId": "event-1",
    "AccountId": "123456789012",
}


@pytest.mark.parametrize(
    "text",
    [
        body(LIFECYCLE_TYPE, HOOK, "aws.autoscaling"),
        json.dumps(DIRECT),
        json.dumps({"Type": "Notification", "Message": json.dumps(DIRECT)}),
    ],
    ids=["EventBridge", "from the hook", "over SNS"],
)
def test_a_group_that_ends_an_instance_names_the_hook_that_waits(text: str) -> None:
    """INT-41: whichever way the hook is set up to tell."""
    hook = HookName("workers", "drain", HOOK["LifecycleActionToken"])
    assert parse(text) == Notice("event-1", NoticeKind.LIFECYCLE, ("i-1",), AT, AT + 120, hook=hook)


@pytest.mark.parametrize(
    "document",
    [
        {**DIRECT, "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING"},
        {"Service": "AWS Auto Scaling", "Event": "autoscaling:TEST_NOTIFICATION"},
        json.loads(body("EC2 Instance-launch Lifecycle Action", HOOK, "aws.autoscaling")),
        json.loads(body(LIFECYCLE_TYPE, {}, "aws.autoscaling")),
        json.loads(body(LIFECYCLE_TYPE, HOOK, "aws.ec2")),
    ],
)
def test_launches_and_test_notifications_of_groups_are_not_ours(document: Any) -> None:
    assert parse(json.dumps(document)).kind == NoticeKind.NO_OP


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("EC2InstanceId", None),
        ("AutoScalingGroupName", ""),
        ("LifecycleHookName", "x" * 300),
        ("LifecycleActionToken", ["token"]),
    ],
)
def test_a_lifecycle_event_that_names_nothing_is_refused(field: str, value: Any) -> None:
    with pytest.raises(BadMessage, match=field):
        parse(body(LIFECYCLE_TYPE, {**HOOK, field: value}, "aws.autoscaling"))


@pytest.mark.parametrize("entities", [None, []])
def test_a_health_event_of_the_whole_account_names_no_instance(entities: Any) -> None:
    assert parse(health(affectedEntities=entities)).instances == ()


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (health(affectedEntities="i-1"), "affectedEntities"),
        (health(affectedEntities=[None, 5, {}, {"entityValue": 7}]), "affectedEntities"),
        (body(SPOT_TYPE, {}), "instance-id"),
        (body(SPOT_TYPE, {"instance-id": 5}), "instance-id"),
        (body(RESERVATION_TYPE, {"instance-id": ""}), "instance-id"),
        (body(REBALANCE_TYPE, {"instance-id": None}), "instance-id"),
        (body(STATE_TYPE, {"state": "stopped"}), "instance-id"),
        (body(STATE_TYPE, {"instance-id": "i-1"}), "state"),
    ],
)
def test_a_known_kind_that_lacks_what_it_must_have_is_refused_by_field(
    broken: str, field: str
) -> None:
    """INT-04: nobody should guess which instance was meant."""
    with pytest.raises(BadMessage, match=field):
        parse(broken)


@pytest.mark.parametrize(
    "change", [{"version": "1"}, {"source": "aws.s3"}, {"detail-type": "Other"}, {"version": 0}]
)
def test_an_unknown_triple_is_no_op(change: dict[str, Any]) -> None:
    """INT-05: counted and deleted."""
    document = json.loads(body(SPOT_TYPE, {"instance-id": "i-1"}))
    version_zero_as_number = change == {"version": 0}
    expected = NoticeKind.SPOT if version_zero_as_number else NoticeKind.NO_OP
    assert parse(json.dumps({**document, **change})).kind == expected


@pytest.mark.parametrize("detail", [None, "text", 5, []])
def test_an_event_that_is_not_for_us_may_have_any_detail(detail: Any) -> None:
    """INT-05: what nobody here reads is counted, not kept as unreadable."""
    assert parse(body("Other", detail)).kind == NoticeKind.NO_OP
    with pytest.raises(BadMessage, match="detail"):
        parse(body(SPOT_TYPE, detail))


def test_a_start_without_a_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the machine that reads it."""
    with monkeypatch.context() as here:
        here.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        found = parse(health(startTime="Thu, 01 Jan 2026 00:00:10 -0000"))
    time.tzset()
    assert found.deadline == AT + 10


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "null", '"x"', '{"detail": 5}', '{"detail": null}']
)
def test_what_is_no_event_is_a_bad_message(text: str) -> None:
    """INT-04: when messages are deleted; ACC-77: foreign and unreadable messages."""
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


DETAILS = st.dictionaries(
    st.sampled_from(
        [
            "instance-id", "state", "service", "eventTypeCategory", "affectedEntities",
            "startTime", "statusCode",
        ]
    ),
    JSON
    | st.sampled_from(["EC2", "scheduledChange", "stopping", "i-1"])
    | st.lists(st.dictionaries(st.just("entityValue"), JSON), max_size=3),
)  # fmt: skip
BODIES = st.builds(
    body,
    st.sampled_from(TYPES),
    DETAILS,
    st.sampled_from(["aws.ec2", "aws.health", "aws.autoscaling"]),
    time=JSON | st.just("2026-01-01T00:00:00Z") | st.just("0001-01-01T00:00:00"),
    id=JSON,
    version=st.sampled_from(["0", 0, "1", None]),
)
HOOK_DETAILS = st.builds(
    lambda some, changes: {**{k: HOOK[k] for k in some}, **changes},
    st.sets(st.sampled_from(sorted(HOOK))),
    st.dictionaries(st.sampled_from(sorted(HOOK)), JSON, max_size=2),
)
HOOK_BODIES = st.one_of(
    st.builds(lambda detail: body(LIFECYCLE_TYPE, detail, "aws.autoscaling"), HOOK_DETAILS),
    st.builds(lambda detail: json.dumps({**detail, "Service": "AWS Auto Scaling"}), HOOK_DETAILS),
)
WRAPPED = st.builds(
    lambda text: json.dumps({"Type": "Notification", "Message": text}),
    HOOK_BODIES | BODIES | JSON,
)
CUT = st.builds(lambda text, end: text[:end], BODIES, st.integers(0, 400))


def read_or_refused(text: str) -> None:
    """What every body must come out as."""
    try:
        found = parse(text)
    except BadMessage:
        return
    known = action_for(found.kind) or (found.kind == NoticeKind.LIFECYCLE and found.hook)
    assert found.kind == NoticeKind.NO_OP or known
    assert found.id
    assert all(isinstance(name, str) and name for name in found.instances)


@given(BODIES | CUT | HOOK_BODIES | WRAPPED)
def test_every_body_is_read_or_refused(text: str) -> None:
    read_or_refused(text)
