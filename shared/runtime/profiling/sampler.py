"""Looks at all threads of the process again and again, from a thread of its own.

Each look holds the interpreter lock for some ten microseconds per thread. Waiting threads are seen too: a loop that
sleeps has the selector on top. What may go wrong: a long call into C holds the lock; then the look comes late, and the
call counts once.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from types import CodeType, FrameType

from shared.concurrency.clock import Clock
from shared.runtime.profiling.samples import MOST_FRAMES, Samples, Stack

INTERVAL_SECONDS = 0.01


def sample(
    seconds: float, stop: threading.Event, clock: Clock, interval: float = INTERVAL_SECONDS
) -> Samples:
    """Blocks the calling thread, which is left out, for so many seconds or until ``stop``."""
    found, own = Samples(interval), threading.get_ident()
    end = clock.monotonic() + seconds
    while clock.monotonic() < end and not stop.wait(interval):
        found.add(stacks(own))
    return found


def stacks(without: int) -> Iterator[Stack]:
    """The stack of each thread but one."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident != without:
            yield (names.get(ident, "thread"), *_frames(frame))


def _frames(innermost: FrameType) -> list[str]:
    found: list[str] = []
    frame: FrameType | None = innermost
    while frame is not None and len(found) < MOST_FRAMES:
        found.append(_name(frame.f_code))
        frame = frame.f_back
    return found[::-1]


@cache  # bounded by the code that the process has
def _name(code: CodeType) -> str:
    """Module and function, without lines: stacks of one function count together."""
    path = PurePath(code.co_filename)
    place = "/".join(path.parts[-3:]) if path.is_absolute() else code.co_filename
    return f"{place}:{code.co_qualname}".replace(";", ",").replace(" ", "_")
