"""Memory management of a process: release after the start, and tuning of the garbage collector.

Imports and service models leave many freed blocks that the C library keeps. One trim after the start returns them to
the system (glibc only). Objects that are alive then stay alive, so the garbage collector need not scan them again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_EVERY = (10_000, 20, 20)
"""Thresholds of the collector. Plans and requests create many objects and few cycles; with Python's default of 700, the
collector takes a tenth of the time of a plan for 1,000 pods."""
COMMANDS_COLLECT_EVERY = (100_000, 20, 20)
"""A command is over before much garbage is there."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Disables the garbage collector inside the block, for work that creates many objects and few cycles: collecting
    takes a fifth of the start of a service and a tenth of a plan."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def settle() -> None:
    """Collect, trim and freeze. Call after the start of a service, and after rare large computations."""
    import ctypes  # only here: commands, which never settle, need not load it

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
