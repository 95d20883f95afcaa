"""Interruptions, decisions and details, from what the other services say."""

from __future__ import annotations

from typing import Any

import pytest

from services.console.reports.decisions import MOST_DECISIONS, Decisions
from services.console.reports.events import event_row
from services.console.reports.health import lease_row, service_row
from services.console.reports.node_details import bought, decision_of, shown_labels, timeline
from services.console.reports.peers import PeerStatus
from services.console.reports.pod_details import smallest_change
from services.console.reports.queues import dead_letter_row
from shared.domain import labels as keys
from shared.domain.machines.machine import LAUNCHED, Condition
from shared.redis.bus import DeadLetter
from tests.support.planning.builders import make_machine, make_node


def decision(number: int) -> dict[str, Any]:
    return {"id": str(number), "at": float(number), "text": "", "moves": {"shop/web": f"m{number}"}}


def test_decisions_of_all_polls_are_kept_once_and_newest_first() -> None:
    kept = Decisions()
    kept.add({"decisions": [decision(2), decision(1)]})
    fresh = kept.add({"decisions": [decision(3), decision(2)]})
    assert [one["id"] for one in fresh] == ["3"]
    assert [one["id"] for one in kept.documents()] == ["3@3.0", "2@2.0", "1@1.0"]
    assert kept.targets() == {"shop/web": "m3"}


def test_equal_plans_of_two_moments_are_two_decisions() -> None:
    kept = Decisions()
    kept.add({"decisions": [decision(1) | {"at": 2.0}, decision(1)]})
    assert [one["id"] for one in kept.documents()] == ["1@2.0", "1@1.0"]


def test_only_so_many_decisions_are_kept() -> None:
    kept = Decisions()
    for number in range(MOST_DECISIONS + 10):
        kept.add({"decisions": [decision(number)]})
    assert len(kept.documents()) == MOST_DECISIONS


def test_a_service_that_does_not_answer_is_not_ready_whatever_it_said_last() -> None:
    said = PeerStatus({"ready": True, "reasons": ["old"]}, 5.0, "does not answer at http://x")
    row = service_row("watcher", "http://x", said)
    assert (row["ready"], row["reasons"]) == (False, [])
    assert "does not answer" in row["problem"]


def test_a_lease_without_a_readable_time_is_shown_all_the_same() -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "renewTime": "soon"}}
    assert lease_row(lease) == {"name": "l", "holder": "me", "renewed": None}
    assert lease_row({})["name"] == ""


def test_the_timeline_of_a_node_is_in_order() -> None:
    launched = {LAUNCHED: Condition("True", since=20.0)}
    machine = make_machine(created_at=10.0, conditions=launched, deleted_at=90.0)
    found = timeline(machine, make_node(created_at=30.0))
    assert [one["at"] for one in found] == [10.0, 20.0, 30.0, 90.0]


def test_labels_are_those_of_the_node_and_of_the_machine_before_it_joins() -> None:
    machine = make_machine(labels={"a": "1"})
    assert shown_labels(machine, None) == {"a": "1"}
    assert "a" not in shown_labels(machine, make_node())


def test_why_it_was_bought_names_the_requests() -> None:
    assert "cpu 500m, memory 1Gi" in bought(make_machine(requests={"cpu": 500, "memory": 1 << 30}))
    assert bought(None) == ""


def test_why_it_was_bought_names_the_plan_that_the_console_saw() -> None:
    kept = Decisions()
    kept.add({"decisions": [{"id": "p1", "at": 5.0, "text": "1 machine for 3 pods"}]})
    machine = make_machine(annotations={keys.PLAN_ANNOTATION: "p1"})
    assert decision_of(machine, kept) == {"at": 5.0, "text": "1 machine for 3 pods"}
    assert decision_of(make_machine(annotations={keys.PLAN_ANNOTATION: "p0"}), kept) is None
    assert decision_of(None, kept) is None


def test_the_smallest_change_has_words_and_commands() -> None:
    edit = {"object": "Pod shop/web", "text": "add a toleration"}
    change = smallest_change("shop/web", {"changes": [edit]})
    assert change is not None
    assert change["text"] == "add a toleration"
    assert change["commands"] == ["dovetail explain pod shop/web", "kubectl edit pod -n shop web"]
    assert smallest_change("shop/web", {}) is None


@pytest.mark.parametrize(
    ("event", "at"),
    [
        ({"lastTimestamp": "2026-01-01T00:00:00Z"}, 1767225600.0),
        ({"eventTime": "2026-01-01T00:00:00.5Z"}, 1767225600.5),
        ({"lastTimestamp": "yesterday"}, 0.0),
        ({}, 0.0),
    ],
)
def test_events_of_both_generations_of_the_api_have_a_time(
    event: dict[str, Any], at: float
) -> None:
    assert event_row(event)["at"] == at


def test_a_dead_letter_that_is_no_message_shows_its_fields() -> None:
    letter = DeadLetter("1700000000000-0", "1-0", "g", "bad", 5, None, {b"body": b"\xff<b>"})
    row = dead_letter_row("pods", letter)
    assert (row["at"], row["replay"]) == (
        1.7e9,
        "dovetail dead-letters replay pods 1700000000000-0",
    )
    assert row["body"] == "body: �<b>"
