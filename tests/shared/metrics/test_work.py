"""Loops and consumers, under the names that operators know from controller-runtime."""

from __future__ import annotations

import pytest

from shared.metrics import Metrics
from shared.redis.bus import RetryLater
from tests.support.metrics.pages import Scraped

RECONCILE = "controller_runtime_reconcile"
QUEUE = {"name": "consume pods", "controller": "consume pods"}


def scrape(metrics: Metrics) -> Scraped:
    return Scraped(metrics.text())


def test_a_loop_that_has_not_failed_says_so() -> None:
    """Dashboards list the controllers by this metric."""
    metrics = Metrics("scheduler")
    metrics.expect_loop("disruption")
    assert scrape(metrics).of(f"{RECONCILE}_errors_total", "controller") == {"disruption": 0}


def test_who_leads_is_told_as_it_is_when_asked() -> None:
    metrics, held = Metrics("scheduler"), [True]
    metrics.report_leadership("karpenter-leader-election-scheduler", lambda: held[0])
    status = "leader_election_master_status"
    assert scrape(metrics).of(status, "name") == {"karpenter-leader-election-scheduler": 1}
    held[0] = False
    assert scrape(metrics).of(status, "name") == {"karpenter-leader-election-scheduler": 0}


def test_turns_are_counted_and_timed() -> None:
    metrics = Metrics("scheduler")
    metrics.count_turn("disruption", 2.0)
    metrics.count_failed_turn("disruption", foreseen=True)
    metrics.count_failed_turn("disruption", foreseen=False)
    scraped = scrape(metrics)
    assert scraped.of(f"{RECONCILE}_total", "result") == {"success": 1, "error": 2}
    assert scraped.value(f"{RECONCILE}_errors_total", controller="disruption") == 2
    assert scraped.value(f"{RECONCILE}_panics_total", controller="disruption") == 1
    assert scraped.value(f"{RECONCILE}_time_seconds_sum", controller="disruption") == 2


@pytest.mark.parametrize(
    ("error", "result", "retries"),
    [(None, "success", 0), (RetryLater(1), "requeue_after", 1), (ValueError("x"), "error", 1)],
)
def test_a_message_is_counted_by_what_came_of_it(
    error: Exception | None, result: str, retries: int
) -> None:
    metrics = Metrics("scheduler")
    metrics.expect_messages("consume pods", 32)

    def work() -> None:
        with metrics.message("consume pods", 3.0, RetryLater):
            during = scrape(metrics)
            assert during.value("controller_runtime_active_workers", controller=QUEUE["name"]) == 1
            if error is not None:
                raise error

    if error is None:
        work()
    else:
        with pytest.raises(type(error)):
            work()
    scraped = scrape(metrics)
    assert scraped.of(f"{RECONCILE}_total", "result") == {result: 1}
    assert scraped.value("workqueue_adds_total", **QUEUE) == 1
    assert scraped.value("workqueue_retries_total", **QUEUE) == retries
    assert scraped.value("workqueue_queue_duration_seconds_sum", **QUEUE) == 3
    assert scraped.value("workqueue_work_duration_seconds_count", **QUEUE) == 1
    assert scraped.value("controller_runtime_active_workers", controller=QUEUE["name"]) == 0
    assert scraped.value("workqueue_unfinished_work_seconds", **QUEUE) == 0


def test_only_who_consumes_tells_how_much_lies_before_it() -> None:
    """MET-13: the standby of another process must not count the same messages."""
    metrics = Metrics("scheduler")
    metrics.set_depth("consume pods", None)
    metrics.set_depth("consume pods", 7)
    assert scrape(metrics).value("workqueue_depth", **QUEUE) == 7
    metrics.set_depth("consume pods", None)
    assert scrape(metrics).value("workqueue_depth", **QUEUE) is None
