"""Spans that go to a collector by OTLP over HTTP. The only module that imports the OpenTelemetry SDK.

A span is put into a bounded queue; a thread of its own sends it. So a collector that is slow or away never holds up a
service: what finds no room, or is refused after the exporter's repetitions, is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import SpanKind, Status, StatusCode

from shared.concurrency.clock import Clock
from shared.log import get_logger
from shared.redis.bus import Envelope, RetryLater
from shared.redis.bus.trace_context import current_trace, valid_trace
from shared.runtime.tracing.tracer import NO_SPAN, Attribute, Span

log = get_logger(__name__)

MOST_WAITING = 2048
BATCH = 512
SEND_SECONDS = 2.0
CLOSE_SECONDS = 3.0
LONGEST_ERROR = 500
Dropped = Callable[[str, int], None]
"""Gets the reason, ``queue_full`` or ``export_failed``, and the number of spans."""


class Ids(IdGenerator):
    """Ids from a source of chance, so that whoever brings a seeded one gets the same ids again."""

    def __init__(self, chance: random.Random) -> None:
        self._random = chance

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) or 1


class Pipeline(SpanProcessor, SpanExporter):
    """Between the tracer and the exporter: bounds what waits, and counts what is dropped."""

    def __init__(self, exporter: SpanExporter, dropped: Dropped, most: int = MOST_WAITING) -> None:
        self._exporter, self._dropped, self._most = exporter, dropped, most
        self._waiting, self._lock, self._works = 0, threading.Lock(), True
        self._ended = False
        self._batches = BatchSpanProcessor(
            self,
            max_queue_size=most,
            max_export_batch_size=min(BATCH, most),
            schedule_delay_millis=SEND_SECONDS * 1000,
        )

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is None or not span.context.trace_flags.sampled:
            return
        with self._lock:
            full = self._waiting >= self._most
            self._waiting += not full
        if full:
            self._dropped("queue_full", 1)
        else:
            self._batches.on_end(span)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """In the sending thread."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001  whatever the exporter raises, the spans are lost and no more
            log.debug("the exporter of traces failed", error=repr(error)[:LONGEST_ERROR])
        with self._lock:
            self._waiting -= len(spans)
        self._note(result is SpanExportResult.SUCCESS, len(spans))
        return result

    def _note(self, works: bool, spans: int) -> None:
        if not works:
            self._dropped("export_failed", spans)
        if works != self._works and not self._ended:
            self._works = works
            text = "the collector takes spans again" if works else "the collector takes no spans"
            log.warning(text, spans=spans)

    def shutdown(self) -> None:
        """Called by whoever ends the pipeline, and by the batches in it when they are through."""
        self._exporter.shutdown()

    def end(self) -> None:
        """Send what waits and stop. Takes as long as the exporter does, and nothing is logged meanwhile: the caller may
        be gone."""
        self._ended = True
        self._batches.shutdown()  # type: ignore[no-untyped-call]


class _OpenSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.traceparent = _traceparent(span)

    def note(self, **attributes: Attribute) -> None:
        self._span.set_attributes(attributes)

    def fail(self, message: str) -> None:
        self._span.set_status(Status(StatusCode.ERROR, message[:LONGEST_ERROR]))


class OtlpTracer:
    """Made by ``open_tracer``."""

    enabled = True

    def __init__(
        self,
        exporter: SpanExporter,
        dropped: Dropped,
        *,
        resource: Mapping[str, str],
        clock: Clock,
        chance: random.Random,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._clock = clock
        self._pipeline = Pipeline(exporter, dropped, most_waiting)
        provider = TracerProvider(
            resource=Resource.create(dict(resource)),
            id_generator=Ids(chance),
            shutdown_on_exit=False,  # it would wait for the collector, without a limit of ours
        )
        provider.add_span_processor(self._pipeline)
        self._tracer = provider.get_tracer("dovetail")

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        links: Sequence[str] = (),
        start: float | None = None,
        **attributes: Attribute,
    ) -> Iterator[Span]:
        parent = current_trace.get() if parent is None else parent
        with self._open(name, SpanKind.INTERNAL, parent, links, start, attributes) as span:
            yield span

    def message(self, envelope: Envelope, consumer: str) -> AbstractContextManager[object]:
        if not envelope.trace:
            return NO_SPAN
        about: dict[str, Attribute] = {
            "consumer": consumer,
            "key": envelope.key,
            "waited_seconds": round(max(0.0, self._clock.now() - envelope.at), 3),
            "attempt": envelope.attempt,
        }
        name = f"handle {envelope.type}"
        return self._open(name, SpanKind.CONSUMER, envelope.trace, (), None, about)

    @contextmanager
    def _open(
        self,
        name: str,
        kind: SpanKind,
        parent: str,
        links: Sequence[str],
        start: float | None,
        attributes: Mapping[str, Attribute],
    ) -> Iterator[Span]:
        span = self._start(
            name, kind, parent, links, self._clock.now() if start is None else start, attributes
        )
        found = _OpenSpan(span)
        token = current_trace.set(found.traceparent)
        try:
            yield found
        except RetryLater as later:
            span.set_attribute("again", later.message)
            raise
        except BaseException as error:
            found.fail(f"{type(error).__name__}: {error}")
            raise
        finally:
            current_trace.reset(token)
            span.end(_nanoseconds(self._clock.now()))

    def record(
        self,
        name: str,
        *,
        parent: str,
        start: float,
        end: float,
        links: Sequence[str] = (),
        error: str = "",
        **attributes: Attribute,
    ) -> str:
        span = self._start(name, SpanKind.INTERNAL, parent, links, min(start, end), attributes)
        found = _OpenSpan(span)
        if error:
            found.fail(error)
        span.end(_nanoseconds(end))
        return found.traceparent

    def _start(
        self,
        name: str,
        kind: SpanKind,
        parent: str,
        links: Sequence[str],
        start: float,
        attributes: Mapping[str, Attribute],
    ) -> trace.Span:
        others = (_context_of(one) for one in links)
        return self._tracer.start_span(
            name,
            context=_context(parent),
            kind=kind,
            attributes=attributes,
            links=[trace.Link(one) for one in others if one is not None],
            start_time=_nanoseconds(start),
        )

    async def close(self) -> None:
        # A thread that nobody waits for at exit: the exporter may hang for as long as its own timeout.
        ending = threading.Thread(target=self._pipeline.end, daemon=True, name="traces")
        ending.start()
        await asyncio.to_thread(ending.join, CLOSE_SECONDS)


def open_otlp_tracer(
    endpoint: str,
    dropped: Dropped,
    *,
    resource: Mapping[str, str],
    clock: Clock,
    chance: random.Random,
) -> OtlpTracer:
    """A tracer that sends to ``endpoint``, the base URL of a collector. Other ``OTEL_`` variables are the SDK's."""
    # Its lines are no JSON, and one comes for each failed attempt: the pipeline says it once.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
    return OtlpTracer(exporter, dropped, resource=resource, clock=clock, chance=chance)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def _context_of(traceparent: str) -> trace.SpanContext | None:
    """None for what is no traceparent."""
    if not valid_trace(traceparent):
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return trace.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(flags, 16)),
    )


def _context(traceparent: str) -> Context:
    found = _context_of(traceparent)
    if found is None:
        return Context()
    return trace.set_span_in_context(trace.NonRecordingSpan(found), Context())


def _traceparent(span: trace.Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
