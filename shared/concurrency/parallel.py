"""Bounded parallelism of coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def in_parallel(works: Iterable[Coroutine[Any, Any, Result]], *, most: int) -> list[Result]:
    """The results of all coroutines, in order; at most ``most`` of them run at a time.

    All coroutines run to their end even when one fails, so that none is cut off half-way. Then the first error, in
    order, is raised.
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
