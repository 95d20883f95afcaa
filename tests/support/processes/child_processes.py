"""Processes that this one has started to compute something."""

from __future__ import annotations

from contextlib import suppress

import psutil


def working_children() -> list[psutil.Process]:
    """Those that run or are about to."""
    return [child for child in psutil.Process().children() if _computes(child)]


def _computes(child: psutil.Process) -> bool:
    # One that ends at this moment has no command line any more.
    with suppress(psutil.Error):
        return "multiprocessing.spawn" in " ".join(child.cmdline())
    return False
