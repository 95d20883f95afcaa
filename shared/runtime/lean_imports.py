"""Imports a library without one that it would only like to have.

Many libraries import an optional companion when it happens to be installed, and every service then carries it for ever.
What may go wrong: the library does need it after all; then its import fails at the start, which every test sees.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(name: str) -> Iterator[None]:
    """Inside, the package ``name`` cannot be imported, unless somebody has already. Afterwards it can be."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
