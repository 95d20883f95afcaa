"""Faults of the watcher's view of the API server, and of the mirror that it writes. In health all stay at zero."""

from __future__ import annotations

from shared.metrics.declaring import Declarations


class WatchMetrics:
    """Written by the watcher, and by the services that follow the mirror."""

    def __init__(self, declare: Declarations) -> None:
        self.watch_failures = declare.counter(
            "dovetail_watch_object_failures_total",
            "Objects that could not be processed because of a defect in Dovetail; each counts as unusable.",
            "kind",
        )
        self.watch_differences = declare.counter(
            "dovetail_watch_differences_total",
            "Objects whose copy in the watcher differed from a new list; they are read again.",
            "kind", "direction",
        )  # fmt: skip
        self.mirror_rejected = declare.by("interruption, scheduler").counter(
            "dovetail_mirror_rejected_total",
            "Entries and heartbeats in the mirror that the watcher did not write; they are ignored.",
        )
