"""Waiting that ends when a stop event is set."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def pause(stop: asyncio.Event, seconds: float) -> bool:
    """Wait ``seconds``, or until ``stop`` is set. True when the whole time passed."""
    # Not wait_for: it makes a task for each of the many short pauses of a service.
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return True
    return False


async def pause_unless(woken: asyncio.Event, stop: asyncio.Event, seconds: float) -> None:
    """Wait ``seconds``, or until ``woken`` or ``stop`` is set. Clears ``woken``: read afterwards what it stands for."""
    waits = [asyncio.ensure_future(event.wait()) for event in (woken, stop)]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    woken.clear()


async def run_until(stop: asyncio.Event, work: Coroutine[Any, Any, object]) -> None:
    """Await ``work``, and cancel it when ``stop`` is set first. Raises what ``work`` raises."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
    if not working.cancelled():
        working.result()
