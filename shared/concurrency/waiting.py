"""Waiting that ends when a stop event is set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
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


async def pause_unless(woken: asyncio.Event, seconds: float) -> None:
    """Wait ``seconds``, or until ``woken`` is set. Clears ``woken``: read afterwards what it stands for."""
    await pause(woken, seconds)
    woken.clear()


@asynccontextmanager
async def woken_by(stop: asyncio.Event, woken: asyncio.Event) -> AsyncIterator[None]:
    """Inside, ``stop`` sets ``woken`` too, so that a loop pauses on one event and no pause needs tasks of its own."""
    setting = asyncio.ensure_future(_set_after(stop, woken))
    try:
        yield
    finally:
        setting.cancel()
        await asyncio.gather(setting, return_exceptions=True)


async def _set_after(stop: asyncio.Event, woken: asyncio.Event) -> None:
    await stop.wait()
    woken.set()


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
