"""Waits for a state instead of sleeping: polls a predicate, by default every 10 ms, until it holds or
the timeout has passed.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

POLL_SECONDS = 0.01
PATIENCE_SECONDS = 60.0
"""Longer than any state needs on a busy machine: only a failing test waits so long."""
Value = TypeVar("Value")


@overload
async def wait_until(
    predicate: Callable[[], Awaitable[Value]],
    what: str,
    *,
    seconds: float = ...,
    show: Callable[[], object] | None = ...,
    every: float = ...,
) -> Value: ...
@overload
async def wait_until(
    predicate: Callable[[], Value],
    what: str,
    *,
    seconds: float = ...,
    show: Callable[[], object] | None = ...,
    every: float = ...,
) -> Value: ...
async def wait_until(
    predicate: Callable[[], Value | Awaitable[Value]],
    what: str,
    *,
    seconds: float = PATIENCE_SECONDS,
    show: Callable[[], object] | None = None,
    every: float = POLL_SECONDS,
) -> Value:
    """The first true result of ``predicate`` (plain or async), asked ``every`` so many seconds: a question that costs
    the system under test something wants a longer pause.

    Raises AssertionError that says what was awaited, the last result, the last error of the predicate, and what
    ``show`` returns, when ``seconds`` are over.
    """
    deadline = time.monotonic() + seconds
    result: object = None
    problem: Exception | None = None
    while time.monotonic() < deadline:
        try:
            answer = predicate()
            value = await answer if inspect.isawaitable(answer) else answer
            result, problem = value, None
            if value:
                return value
        except (AssertionError, LookupError, TypeError) as error:
            problem = error
        await asyncio.sleep(every)
    details = f"last result {result!r}" if problem is None else f"last error {problem!r}"
    state = f"; state: {show()!r}" if show else ""
    raise AssertionError(f"not within {seconds} s: {what} ({details}{state})")
