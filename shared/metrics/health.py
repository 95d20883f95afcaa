"""Whether a service can do its work, and what waits for a person: for alerts."""

from __future__ import annotations

from shared.metrics.declaring import Declarations
from shared.metrics.work import EVERY_SERVICE


class HealthMetrics:
    """Written by the runtime of every service, and by the watcher for Redis."""

    def __init__(self, declare: Declarations, service: str) -> None:
        every = declare.by(EVERY_SERVICE)
        self._ready = every.gauge(
            "dovetail_ready",
            "1: the service can do its work; 0: /readyz says why it cannot.",
            "service",
        ).labels(service)
        self.dropped_spans = every.counter(
            "dovetail_trace_spans_dropped_total",
            "Spans that the collector did not get: queue_full, or export_failed.",
            "reason",
        )
        self.dead_letters = declare.by("launcher, scheduler, terminator").gauge(
            "dovetail_dead_letters",
            "Messages of a stream that no service could handle, until a person replays or drops them.",
            "stream",
        )
        watcher = declare.by("watcher")
        self.redis_memory = watcher.gauge(
            "dovetail_redis_memory_bytes", "Memory that Redis uses for its data."
        )
        self.redis_memory_limit = watcher.gauge(
            "dovetail_redis_memory_limit_bytes", "Redis' maxmemory; 0: it has no limit."
        )

    def report_readiness(self, ready: bool) -> None:
        """Called before each scrape."""
        self._ready.set(ready)
