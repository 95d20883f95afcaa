"""Import of a library without one of its optional dependencies.

Many libraries import an optional dependency whenever it is installed, which costs every service memory. If the library
requires it, its import fails at the start, which every test detects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(name: str) -> Iterator[None]:
    """Inside the block, the package ``name`` cannot be imported, unless it has been imported before."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
