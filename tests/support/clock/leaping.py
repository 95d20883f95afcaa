"""An event loop whose time leaps: when nothing is left to do, the clock goes on to the next timer at once.

Code under test sleeps with ``asyncio.sleep`` as it does in production, and minutes of it pass in milliseconds. Only for
code without real I/O: a socket would be asked, but never waited for.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Leaping(selectors.DefaultSelector):
    """Adds up the requested timeouts instead of waiting. Raises RuntimeError instead of waiting for ever."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for something that no timer will bring")
        self.seconds += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, leaping: _Leaping) -> None:
        self._leaping = leaping
        super().__init__(leaping)

    def time(self) -> float:
        return self._leaping.seconds


class LoopClock:
    """The running loop's time as wall and monotonic time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def run_leaping(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine from second 0 to its end."""
    loop = _Loop(_Leaping())
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
