"""A tracer whose spans a test reads, without a collector."""

from __future__ import annotations

import random

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.concurrency.clock import Clock, SystemClock
from shared.runtime.tracing.otlp import OtlpTracer


class RecordedSpans:
    """Give ``tracer`` to the part under test; then read ``named``."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer = OtlpTracer(
            self._exporter, lambda *_: None,
            resource={}, clock=clock or SystemClock(), chance=random.Random(1),
        )  # fmt: skip

    async def all(self) -> list[ReadableSpan]:
        """Every span that is over. No more are recorded after it."""
        await self.tracer.close()
        return list(self._exporter.get_finished_spans())

    def begun(self, name: str = "begun") -> str:
        """A new trace: its first span's traceparent."""
        return self.tracer.record(name, parent="", start=1.0, end=2.0)


def trace_of(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}" if span.context else ""
