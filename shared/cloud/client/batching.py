"""Merges calls that arrive close together into one (LCH-54, LCH-55).

A batch is complete when no item arrived for ``idle`` seconds, or ``longest`` seconds after its first item, or when it
holds ``most`` items; while ``busy`` it keeps collecting, because its work would only wait. Then one call of ``work``
serves all items, in a task of its own: the cancellation of one caller does not affect the others.

What may go wrong: ``work`` raises. Then every caller of that batch gets the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.errors import DovetailError, TransientError

Item = TypeVar("Item")
Result = TypeVar("Result")
Answers = Sequence[Result | BaseException]


class Batcher(Generic[Item, Result]):
    """``work`` gets the items in the order of arrival, and returns a result or an error to raise for each."""

    def __init__(
        self,
        work: Callable[[list[Item]], Awaitable[Answers[Result]]],
        *,
        idle: float,
        longest: float,
        most: int,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._work, self._busy = work, busy
        self._idle, self._longest, self._most = idle, longest, most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Add an item, and wait for its result."""
        return await self.put(item)

    def put(self, item: Item) -> asyncio.Future[Result]:
        """Add an item; returns the future of its result. Cancelling the future does not remove the item."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, answer))
        if len(self._waiting) >= self._most:
            self._close()
            return answer
        if "longest" not in self._timers:
            self._timers["longest"] = loop.call_later(self._longest, self._close)
        if "idle" in self._timers:
            self._timers["idle"].cancel()
        self._timers["idle"] = loop.call_later(self._idle, self._close)
        return answer

    def _close(self) -> None:
        """Start the work of this batch, unless ``busy``: then check again after ``idle`` seconds."""
        if self._busy() and len(self._waiting) < self._most:
            for timer in self._timers.values():
                timer.cancel()
            again = asyncio.get_running_loop().call_later(self._idle, self._close)
            self._timers["longest"] = (
                again  # unlike the idle timer, new items do not postpone this one
            )
            return
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.get_running_loop().create_task(self._run(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        answers: Answers[Result]
        try:
            answers = await self._work([item for item, _ in batch])
        except asyncio.CancelledError:
            for _, waiting in batch:
                waiting.cancel()
            raise
        except BaseException as error:  # noqa: BLE001  raised again in every caller
            answers = [error] * len(batch)
        for (_, waiting), answer in zip(batch, answers, strict=True):
            if waiting.done():
                continue
            if isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)


async def one_by_one(
    items: Sequence[Item], work: Callable[[list[Item]], Awaitable[Answers[Result]]]
) -> Answers[Result]:
    """All items in one call; when it is refused, one call per item, so that one bad item fails alone (LCH-55).

    A transient error is raised without these calls: they would multiply the load.
    """
    try:
        return await work(list(items))
    except TransientError:
        raise
    except DovetailError:
        if len(items) == 1:
            raise
    alone = await asyncio.gather(*(work([item]) for item in items), return_exceptions=True)
    return [found if isinstance(found, BaseException) else found[0] for found in alone]
