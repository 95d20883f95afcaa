"""Gives back what only the start of a process needed.

Imports and service models leave many freed blocks behind that the C library keeps. One trim after the start returns
them to the system (glibc; elsewhere nothing happens), and what is alive then lives for ever: the garbage collector
need not look at it again.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_EVERY = (10_000, 20, 20)
"""Plans and requests make many objects and few cycles: Python's 700 costs a plan of 1,000 pods a tenth of its time."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, nobody looks for garbage: imports make next to none, and looking costs a fifth of a service's start."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def settle() -> None:
    """Collect, trim and freeze. Call when everything is built, and after a rare big piece of work."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
