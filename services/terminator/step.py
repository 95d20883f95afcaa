"""How a step of a termination ended."""

from __future__ import annotations

from enum import Enum, auto


class Step(Enum):
    """DONE: no step is left for this object. AGAIN: take the next step after a pause."""

    DONE = auto()
    AGAIN = auto()


DONE, AGAIN = Step.DONE, Step.AGAIN
