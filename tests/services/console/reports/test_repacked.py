"""When the scheduler is asked for the cost of new machines, and what is shown meanwhile."""

from __future__ import annotations

from services.console.reports.repacked import FIRST_RETRY_SECONDS, REPACK_SECONDS, Repacked

ANSWER = {"bound": 1.5, "pods": 7, "unplaced": 0, "costs": {}}


def test_an_unchanged_cluster_needs_no_second_answer() -> None:
    repacked = Repacked()
    assert repacked.is_due(1, 100.0)
    repacked.take(ANSWER, 1, 100.0)
    assert not repacked.is_due(1, 100.0 + 10 * REPACK_SECONDS)
    assert not repacked.is_due(2, 100.0 + REPACK_SECONDS - 1)
    assert repacked.is_due(2, 100.0 + REPACK_SECONDS)


def test_an_answer_without_a_bound_counts_as_an_answer() -> None:
    repacked = Repacked()
    repacked.take({**ANSWER, "bound": None}, 1, 100.0)
    assert not repacked.is_due(2, 100.0 + REPACK_SECONDS - 1)
    assert repacked.text(2, 200.0) == ""


def test_a_failure_keeps_the_last_answer_and_is_repeated_ever_later() -> None:
    repacked = Repacked()
    repacked.take(ANSWER, 1, 0.0)
    repacked.fail("the scheduler does not answer", 100.0)
    assert (repacked.bound, repacked.problem) == (1.5, "the scheduler does not answer")
    assert not repacked.is_due(2, 100.0 + FIRST_RETRY_SECONDS - 1)
    assert repacked.is_due(1, 100.0 + FIRST_RETRY_SECONDS)
    for _ in range(5):
        repacked.fail("the scheduler does not answer", 100.0)
    assert not repacked.is_due(2, 100.0 + REPACK_SECONDS - 1)
    assert repacked.is_due(2, 100.0 + REPACK_SECONDS)
    repacked.take(ANSWER, 2, 200.0)
    assert repacked.problem == ""


def test_prices_of_an_empty_cluster_are_no_prices() -> None:
    """At the start there are no pods yet, and the next answer is a minute away."""
    repacked = Repacked()
    repacked.take({"bound": None, "pods": 0, "costs": {"LowestCost": 0.0}}, 1, 0.0)
    assert repacked.policies == {}
    repacked.take({**ANSWER, "costs": {"LowestCost": 2.0}}, 2, 60.0)
    assert repacked.policies == {"LowestCost": 2.0}


def test_a_bound_of_before_a_change_says_how_old_it_is() -> None:
    """Thousands of pods may come in the minute until the next answer: the cost is then many times the old bound."""
    repacked = Repacked()
    repacked.take(ANSWER, 1, 100.0)
    assert repacked.text(1, 145.0).endswith("for less; daemon sets are counted.")
    assert repacked.text(2, 101.0).endswith("for less; daemon sets are counted.")
    assert repacked.text(2, 145.0).endswith(
        "daemon sets are counted. That was 45 s ago, and the cluster has changed since."
    )
