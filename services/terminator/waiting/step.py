"""What follows a step of a termination: nothing, the next step, or a wait for a change."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

LONGEST_WAIT_SECONDS = 10.0
"""A step is taken after this time whatever the mirror shows: it may lack what matters."""


class Step(Enum):
    """DONE: no step is left for this object. AGAIN: take the next step after a pause."""

    DONE = auto()
    AGAIN = auto()


DONE, AGAIN = Step.DONE, Step.AGAIN


class Wait(msgspec.Struct, frozen=True):
    """The next step is due at ``until`` (monotonic seconds), or as soon as one of these objects changes.

    ``node``: its name; every pod on it counts, too. ``objects``: kind and key of each, as in the mirror.
    """

    until: float
    node: str = ""
    objects: frozenset[tuple[str, str]] = frozenset()


Next = Step | Wait
