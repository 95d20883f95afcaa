"""When the scheduler is asked for its ledgers, and what is shown meanwhile."""

from __future__ import annotations

from services.console.reports.ledgers import (
    KEPT_SECONDS,
    PATHS,
    RETRY_SECONDS,
    WANTED_SECONDS,
    Ledgers,
)


def test_nothing_is_asked_while_nobody_looks() -> None:
    ledgers = Ledgers()
    assert ledgers.due(100.0) == []
    ledgers.shown(100.0)
    assert ledgers.due(100.0) == list(PATHS)
    assert ledgers.due(101.0 + WANTED_SECONDS) == []


def test_an_answer_is_kept_for_a_while_and_a_failure_is_repeated_sooner() -> None:
    ledgers = Ledgers()
    ledgers.kept["regret"].take({"totals": []}, "", 100.0)
    ledgers.kept["constraints"].take(None, "the scheduler does not answer", 100.0)
    ledgers.shown(100.0 + RETRY_SECONDS)
    assert ledgers.due(100.0 + RETRY_SECONDS) == ["constraints"]
    ledgers.shown(100.0 + KEPT_SECONDS)
    assert ledgers.due(100.0 + KEPT_SECONDS) == list(PATHS)


def test_the_last_answer_stays_while_there_is_no_newer_one() -> None:
    ledgers = Ledgers()
    ledgers.kept["regret"].take({"totals": [1]}, "", 0.0)
    ledgers.kept["regret"].take(None, "no answer in time", 300.0)
    shown = ledgers.shown(301.0)
    assert shown["regret"] == {"totals": [1]}
    assert shown["problems"] == {"regret": "no answer in time"}
    assert shown["constraints"] is None
