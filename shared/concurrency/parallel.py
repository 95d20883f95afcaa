"""Many works at once, but never more than a stated number."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def in_parallel(works: Iterable[Coroutine[Any, Any, Result]], *, most: int) -> list[Result]:
    """The results of all works, in their order; at most ``most`` of them run at a time.

    Every work runs to its end also when another one fails: what could be written down is written down. The first
    error, in the order of the works, is raised then.
    """
    gate = asyncio.Semaphore(most)

    async def one(work: Coroutine[Any, Any, Result]) -> Result:
        try:
            async with gate:
                return await work
        finally:
            work.close()  # a cancellation may come before its turn

    ended = await asyncio.gather(*map(one, works), return_exceptions=True)
    results: list[Result] = []
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results
