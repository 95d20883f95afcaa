"""What is said of pending pods, what the scheduler is asked for it, and the prices of decisions by each policy."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from services.console.picture.rows import PodRow, Words, pod_row
from services.console.reports.advice import (
    AGAIN_SECONDS,
    MOST_CHARACTERS,
    MOST_KNOWN,
    Advice,
    shortened,
)
from services.console.reports.prices import MOST_ASKED, MOST_TRIES, Prices
from shared.domain.workloads.pods import Owner
from tests.support.console.records import pending

WHY = "no instance type has enough resources"


def row(name: str, owner: str = "", **changes: Any) -> PodRow:
    fields = {"owner": Owner("ReplicaSet", owner, owner)} if owner else {}
    pod = pending(name, **fields)
    return replace(pod_row(pod.key, pod, ""), **changes)


def test_one_question_serves_all_pods_of_a_controller() -> None:
    rows = [row("web-1", "web", since=2.0), row("web-2", "web", since=1.0)]
    advice = Advice({one.id: WHY for one in rows})
    asked = advice.next(rows, now=10.0)
    assert asked == rows[1]  # the oldest
    assert asked is not None
    advice.take(asked, "lower the request", now=10.0)
    assert advice.next(rows, now=11.0) is None
    assert advice.words(rows) == {one.id: Words(WHY, "lower the request") for one in rows}


def test_another_reason_is_another_question() -> None:
    web = row("web-1", "web")
    advice = Advice({web.id: WHY})
    advice.take(web, "", now=10.0)
    assert advice.next([web], now=11.0) is None
    advice.verdicts = {web.id: "did not tolerate taint a"}
    assert advice.next([web], now=12.0) == web


def test_pools_change_so_a_question_is_asked_again() -> None:
    web = row("web-1", "web")
    advice = Advice({web.id: WHY})
    advice.take(web, "lower it", now=10.0)
    assert advice.next([web], now=10.0 + AGAIN_SECONDS) == web


def test_nothing_is_said_of_pods_that_the_plan_places() -> None:
    web, bound = row("web-1"), row("web-2", state="running")
    advice = Advice({bound.id: WHY})
    assert advice.next([web, bound], now=1.0) is None
    assert advice.words([web, bound]) == {}


def test_only_so_much_is_kept() -> None:
    rows = [row(f"web-{number}", cpu=number) for number in range(MOST_KNOWN + 1)]
    advice = Advice({one.id: WHY for one in rows})
    for one in rows:
        advice.take(one, "x", now=1.0)
    assert len(advice._changes) == MOST_KNOWN


def test_a_long_reason_keeps_its_end_which_has_the_cause() -> None:
    text = "a" * MOST_CHARACTERS + " (no instance type has enough resources)"
    assert shortened(text).endswith("(no instance type has enough resources)")
    assert len(shortened(text)) <= MOST_CHARACTERS + 3


def decisions(count: int) -> list[dict[str, Any]]:
    return [{"id": f"p{number}@1", "comparable": True} for number in range(count)]


def test_the_newest_decision_is_asked_for_first_and_only_once() -> None:
    prices = Prices()
    assert prices.next([{"id": "emptiness@1"}, *decisions(2)]) == "p0@1"
    prices.take("p0@1", {"LowestCost": {"cost": 1.0}})
    assert prices.next(decisions(2)) == "p1@1"
    assert prices.of("p0@1") == {"LowestCost": {"cost": 1.0}}
    assert prices.of("p1@1") == {}


def test_what_is_not_answered_is_given_up_after_some_tries() -> None:
    prices = Prices()
    for _ in range(MOST_TRIES):
        assert prices.next(decisions(1)) == "p0@1"
        prices.take("p0@1", {})
    assert prices.next(decisions(1)) is None


def test_old_decisions_are_not_asked_for() -> None:
    prices, listed = Prices(), decisions(MOST_ASKED + 1)
    for one in listed[:MOST_ASKED]:
        prices.take(one["id"], {"LowestCost": {"cost": 1.0}})
    assert prices.next(listed) is None
