"""What services log of their failures: each must be of a kind that was foreseen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from shared.concurrency.clock import SystemClock
from shared.errors import InvalidObject, Unavailable
from shared.log import get_logger
from shared.metrics import Metrics
from shared.runtime.services import Loop, supervise
from simulation.invariants.failures import (
    LINES_PER_MINUTE,
    EveryFailureIsForeseen,
    observe_logs,
)
from tests.simulation.invariants.builders import History
from tests.support.waiting import wait_until

log = get_logger(__name__)


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    """What services log during the test."""
    before, found = structlog.get_config(), []
    observe_logs(lambda **fields: found.append(fields))
    yield found
    structlog.configure(**before)


@pytest.mark.parametrize(
    ("error", "foreseen"),
    [
        (Unavailable("away"), 1),
        (InvalidObject("is wrong", field="spec"), 0),
        (KeyError("x"), 0),
        (TimeoutError(), 0),
    ],
)
async def test_a_loop_may_end_only_by_a_server_that_refuses(
    logged: list[dict[str, Any]], error: Exception, foreseen: int
) -> None:
    """R8, F29: by the log of the real runtime."""

    async def fail(_stop: asyncio.Event) -> None:
        raise error

    stop = asyncio.Event()
    task = asyncio.create_task(supervise(Loop("sweep", fail), stop, Metrics("test"), SystemClock()))
    await wait_until(lambda: logged, "a log line")
    stop.set()
    await task
    assert logged[0]["error"] == type(error).__name__
    assert logged[0]["foreseen"] == foreseen
    assert logged[0]["what"].startswith("loop failed")
    assert logged[0]["what"].endswith("sweep")


@pytest.mark.parametrize(
    ("error", "foreseen"), [(InvalidObject("is wrong", field="spec"), 1), (KeyError("x"), 0)]
)
def test_a_warning_about_an_exception_is_judged_by_its_class(
    logged: list[dict[str, Any]], error: Exception, foreseen: int
) -> None:
    try:
        raise error
    except (InvalidObject, KeyError):
        log.warning("message handler failed", type="LaunchMachine")
    assert [one["foreseen"] for one in logged] == [foreseen]


def test_an_exception_that_is_logged_with_its_traceback_was_not_foreseen(
    logged: list[dict[str, Any]],
) -> None:
    try:
        raise Unavailable("away")
    except Unavailable:
        log.exception("notice not handled")
    assert [one["foreseen"] for one in logged] == [0]


def test_a_warning_about_nothing_that_failed_is_sound(logged: list[dict[str, Any]]) -> None:
    log.warning("limit reached")
    log.info("running")
    assert [one["what"] for one in logged] == ["limit reached"]
    assert logged[0]["foreseen"] == 1


def failed(history: History, foreseen: int = 1) -> None:
    fields = {"what": "loop failed sweep", "error": "KeyError", "text": "'x'"}
    history.event("failure", name="launcher-0", foreseen=foreseen, **fields)


def test_only_what_was_not_foreseen_breaks_a_run() -> None:
    history = History(EveryFailureIsForeseen())
    failed(history)
    assert history.judge() == []
    failed(history, foreseen=0)
    assert history.judge() == ["launcher-0: loop failed sweep: KeyError: 'x'"]


def test_a_process_that_fills_the_log_is_found() -> None:
    # I12
    history = History(EveryFailureIsForeseen())
    for _ in range(LINES_PER_MINUTE):
        failed(history)
    assert len(history.judge()) == 1
