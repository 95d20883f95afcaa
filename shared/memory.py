"""Gives back what only the start of a process needed.

Imports and service models leave many freed blocks behind that the C library keeps. One trim after the start returns
them to the system (glibc; elsewhere nothing happens), and what is alive then lives for ever: the garbage collector
need not look at it again.
"""

from __future__ import annotations

import ctypes
import gc


def settle() -> None:
    """Collect, trim and freeze. Call when everything is built, and after a rare big piece of work."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    gc.freeze()
