"""Amounts: the largest request that still fits, and the lowest limit that still allows it.

Both are found by halving, since a smaller request fits wherever a larger one does, and a higher limit allows whatever a
lower one does. They are rounded to amounts that people write: whole cores, GiB, hundredths of the request.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY

MOST_DOUBLINGS = 24
_LIMIT_STEP = {CPU: 1000, MEMORY: 1 << 30, EPHEMERAL_STORAGE: 1 << 30}


def largest_request(resource: str, asked: int, fits: Callable[[int], bool]) -> int:
    """The largest amount below ``asked`` that fits, in steps of about a hundredth; 0 when not even one step does."""
    step = request_step(resource, asked)
    low, high = 0, -(-asked // step)  # ``low`` fits, ``high`` does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle)
    return low * step


def request_step(resource: str, asked: int) -> int:
    """The largest power of ten (of two for bytes) that is at most a hundredth of the request, at least 1."""
    base = 2 if resource in (MEMORY, EPHEMERAL_STORAGE) else 10
    step = 1
    while step * base * 100 <= asked:
        step *= base
    return step


def least_limit(resource: str, limit: int, allows: Callable[[int], bool]) -> int | None:
    """The lowest limit above ``limit`` that allows it, in whole cores, GiB or units; None when none that was tried
    does."""
    step = _LIMIT_STEP.get(resource, 1)
    low, width = limit // step, 1  # ``low`` does not allow it
    while not allows((low + width) * step):
        if width >= 1 << MOST_DOUBLINGS:
            return None
        low, width = low + width, width * 2
    high = low + width
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if allows(middle * step) else (middle, high)
    return high * step
