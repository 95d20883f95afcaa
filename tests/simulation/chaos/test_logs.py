"""Logs of services as evidence: errors that nobody handled, and ends that nobody ordered."""

from __future__ import annotations

import pytest

from simulation.chaos.logs import unordered_ends, unseen_errors

RUNS = '{"level": "INFO", "message": "running"}'
HANDLED = '{"level": "ERROR", "exception": "Traceback (most recent call last):\\n ..."}'
REFUSED = "dovetail launcher: cannot reach Redis at redis://launcher@127.0.0.1:1/0: refused"


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        '{"level": "ERROR", "message": "Task exception was never retrieved"}',
        '{"level": "ERROR", "message": "Exception in callback Loop.call()"}',
    ],
)
def test_an_error_that_nobody_handled_is_found(line: str) -> None:
    assert unseen_errors([RUNS, line, RUNS]) == [line]


def test_an_error_that_was_handled_and_logged_is_none() -> None:
    assert unseen_errors([RUNS, HANDLED]) == []


def test_ordered_ends_and_servers_out_of_reach_explain_starts() -> None:
    assert unordered_ends("launcher", 3, 2, [RUNS, REFUSED]) == []


def test_one_start_more_is_an_end_that_nobody_ordered() -> None:
    (found,) = unordered_ends("launcher", 3, 2, [RUNS])
    assert found == "launcher was started 3 times again, and its end was ordered 2 times"
