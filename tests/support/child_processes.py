"""The processes that this one has started for pieces of work (``shared.child``)."""

from __future__ import annotations

import psutil


def working_children() -> list[psutil.Process]:
    """Those that run or are about to."""
    return [
        child
        for child in psutil.Process().children()
        if "multiprocessing.spawn" in " ".join(child.cmdline())
    ]
