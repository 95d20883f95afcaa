"""Whether what a watch has told can be relied on: it is open, and the API server speaks through it.

What may go wrong: the connection is refused or breaks again and again, a list never comes to its end, or a connection
is half-open, so that nothing comes and nothing fails. In all three the picture grows old without a sign of it.
"""

from __future__ import annotations

from shared.kube.informer import Informer

UNSOUND_SECONDS = 10.0
"""A watch may be without a connection for so long: a restarted API server is back by then."""
SILENT_SECONDS = 80.0
"""Bookmarks come every minute; after 75 s of silence the connection itself is opened again."""


def complaint(plural: str, informer: Informer, now: float) -> str:
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
