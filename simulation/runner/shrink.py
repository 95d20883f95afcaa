"""Delta debugging: the shortest part of a plan with which a run still breaks the same invariant.

Every attempt is a run of its own, because a run without some entries takes another course. After Zeller and
Hildebrandt's ddmin: chunks of the plan are left out, first halves, then smaller ones, until no single entry can go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

Keep = tuple[int, ...]
FirstFailing = Callable[[Sequence[Keep]], Keep | None]
"""The first of these parts whose run breaks the invariant, in their order; None if none does."""

MOST_ATTEMPTS = 1_000


def shrink(whole: Keep, first_failing: FirstFailing, most_attempts: int = MOST_ATTEMPTS) -> Keep:
    """A part of ``whole`` that fails as ``whole`` does. Unless the attempts end, each of its entries is needed."""
    part, chunks, attempts = whole, 2, 0
    if first_failing([()]) is not None:
        return ()
    while len(part) > 1 and attempts < most_attempts:
        candidates = _without_chunks(part, min(chunks, len(part)))
        attempts += len(candidates)
        found = first_failing(candidates)
        if found is not None:
            part, chunks = found, max(chunks - 1, 2)
        elif chunks >= len(part):
            break
        else:
            chunks *= 2
    return part


def _without_chunks(part: Keep, chunks: int) -> list[Keep]:
    """``part`` without its last chunk, without the one before, and so on: late entries are needed least."""
    borders = [len(part) * number // chunks for number in range(chunks + 1)]
    pairs = list(pairwise(borders))
    return [part[:begin] + part[end:] for begin, end in reversed(pairs)]
