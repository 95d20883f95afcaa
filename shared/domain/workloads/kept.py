"""What is kept of nodes from plan to plan: it stays right while the records from which it was worked out are the same
objects."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

SPARE = 1000
"""So many nodes that are gone stay known, beside as many as there are."""


def same(before: Sequence[object], now: Sequence[object]) -> bool:
    """Whether both hold the very same objects in the same order."""
    return before is now or (len(before) == len(now) and all(map(is_, before, now)))


def forget_gone(known: dict[str, Any], nodes: int) -> None:
    """Begin anew when most of ``known``, by node name, is of nodes that are gone. ``nodes``: how many there are."""
    if len(known) > 2 * nodes + SPARE:
        known.clear()
