"""What goes wrong between the API server and the watcher's picture of it. In health all of it stays at zero."""

from __future__ import annotations

from shared.metrics.declaring import Declarations


class WatchMetrics:
    """Written by the watcher."""

    def __init__(self, declare: Declarations) -> None:
        self.watch_failures = declare.counter(
            "dovetail_watch_object_failures_total",
            "Times that an object could not be read or noted because of a fault of ours; it counts as unusable.",
            "kind",
            by="watcher",
        )
        self.watch_differences = declare.counter(
            "dovetail_watch_differences_total",
            "Objects in which the watcher's picture differed from a fresh list; they are read again.",
            "kind", "direction",
            by="watcher",
        )  # fmt: skip
