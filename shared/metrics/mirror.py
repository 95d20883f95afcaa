"""What a reader of the mirror found there. In health it stays at zero."""

from __future__ import annotations

from shared.metrics.declaring import Declarations


class MirrorMetrics:
    """Written by the services that follow the mirror."""

    def __init__(self, declare: Declarations) -> None:
        self.mirror_rejected = declare.counter(
            "dovetail_mirror_rejected_total",
            "Entries and heartbeats in the mirror that the watcher did not write; they are left out.",
            by="interruption, scheduler",
        )
