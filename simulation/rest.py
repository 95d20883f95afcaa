"""When a run must have come to rest: all that is promised has come true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet

QUIET_POLL_SECONDS = 5.0
MOST_PERIODS = 4
"""An hour more than the first, so that a run ends which never comes to rest."""
Missing = tuple[str, list[str]]
"""The name of a promise that is not kept, and what is wrong."""


async def come_to_rest(
    find_missing: Callable[[], Missing | None],
    waiting: Callable[[], AbstractSet[str]],
    seconds: float,
) -> Missing | None:
    """None when nothing is missing within ``seconds``, else what is.

    Where budgets let one machine go after the other, twenty of them may take half an hour. ``waiting`` names those that
    wait for their turn, or for the deadline of their drain. While there are some, and others had their turn in the last
    ``seconds``, the same time is given again, but never where one and the same thing was missing all the time. Nobody
    helps: that could mend what is judged.
    """
    for _ in range(MOST_PERIODS):
        before = waiting()
        missing, lasting = await _period(find_missing, seconds)
        if missing is None or lasting or not _took_turns(before, waiting()):
            break
    return missing


async def _period(
    find_missing: Callable[[], Missing | None], seconds: float
) -> tuple[Missing | None, AbstractSet[str]]:
    """What is missing after ``seconds``, and what of it was missing all the time. None as soon as nothing is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    lasting: AbstractSet[str] | None = None
    while missing := find_missing():
        found = set(missing[1])
        lasting = found if lasting is None else lasting & found
        if loop.time() > deadline:
            return missing, lasting
        await asyncio.sleep(QUIET_POLL_SECONDS)
    return None, set()


def _took_turns(before: AbstractSet[str], after: AbstractSet[str]) -> bool:
    """Did some have their turn, and do some wait still?"""
    return bool(after) and not before <= after
