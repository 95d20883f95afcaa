"""Run a coroutine until it ends or a stop is asked for, whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await ``work``, cancelling it when ``stop`` is set. Raises what ``work`` raises."""
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
