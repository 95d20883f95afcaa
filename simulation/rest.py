"""When a run must have come to rest: all that is promised has come true."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

QUIET_POLL_SECONDS = 5.0
Missing = tuple[str, list[str]]
"""The name of a promise that is not kept, and what is wrong."""


async def come_to_rest(
    find_missing: Callable[[], Missing | None], hurry: Callable[[], Awaitable[None]], seconds: float
) -> Missing | None:
    """None when nothing is missing within ``seconds``, else what is after twice that time.

    Where budgets let one machine go after the other, twenty of them may take half an hour. So after ``seconds`` people
    hurry it, and then the same time must be enough.
    """
    loop = asyncio.get_running_loop()
    deadline, hurried = loop.time() + seconds, False
    while missing := find_missing():
        if loop.time() > deadline:
            if hurried:
                return missing
            await hurry()
            deadline, hurried = loop.time() + seconds, True
        await asyncio.sleep(QUIET_POLL_SECONDS)
    return None
