"""Whether the picture of a watch can be relied on: the watch is open, and the API server sends through it.

What may go wrong: the connection is refused or breaks again and again, a list never ends, or a connection is half-open,
so that nothing comes and nothing fails. In all three the picture grows old without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from shared.kube.informer import Informer
from shared.redis.mirror import Position

UNSOUND_SECONDS = 3.0
"""A watch may be without a connection for so long: one that ends is opened again within a second."""
SILENT_SECONDS = 80.0
"""Bookmarks come every minute; after 75 s of silence the connection itself is opened again."""
REOPEN_SECONDS = 1.0
"""Every few minutes a watch ends and the next one is opened."""
LONGEST_SECONDS = 1e9
"""In place of never: heartbeats are JSON."""


def positions(
    informers: Mapping[str, Informer], wrong: Set[str], now: float
) -> dict[str, Position]:
    """How far the watches are, for the mirror's readers; by plural, ``now`` is monotonic time.

    ``wrong``: kinds whose picture is known to differ from the cluster. Nothing may be bought by it.
    """
    return {
        plural: _position(informer, now, wrong=plural in wrong)
        for plural, informer in informers.items()
    }


def _position(informer: Informer, now: float, *, wrong: bool) -> Position:
    unsound = informer.unsound_seconds()
    sound = informer.synced.is_set() and unsound < REOPEN_SECONDS and not wrong
    seconds = now - informer.last_progress if sound else unsound
    return Position(informer.position, sound, min(seconds, LONGEST_SECONDS))


def problem_of(plural: str, informer: Informer, now: float) -> str:
    """Why the picture of one kind may be out of date; "": it is not. ``now`` is monotonic time."""
    error = f": {informer.last_error.message}" if informer.last_error else ""
    if not informer.synced.is_set():
        return f"{plural} were never listed{error}"
    unsound = informer.unsound_seconds()
    if unsound > UNSOUND_SECONDS:
        return f"{plural} have not been watched for {unsound:.0f} s{error}"
    silent = now - informer.last_progress
    if silent > SILENT_SECONDS:
        return f"the watch of {plural} has been silent for {silent:.0f} s{error}"
    return ""
