"""Spans reach a collector whole; a collector that is slow, full or away never holds up a service."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Envelope, RetryLater
from shared.redis.bus.trace_context import current_trace, trace_id
from shared.runtime.tracing.otlp import Ids, OtlpTracer, open_otlp_tracer
from tests.support.clock.fake import FakeClock
from tests.support.network.otlp_receiver import Receiver, otlp_receiver
from tests.support.network.status_server import free_port
from tests.support.waiting import wait_until

OUTSIDE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = OUTSIDE[:-2] + "00"


class Sending:
    """A tracer of the service "tests" and the collector that it sends to."""

    def __init__(self, receiver: Receiver, seed: int = 1) -> None:
        self.receiver, self.clock, self.dropped = receiver, FakeClock(wall=1.7e9), Counter[str]()
        self.tracer = open_otlp_tracer(
            receiver.url + "/",
            lambda reason, spans: self.dropped.update({reason: spans}),
            resource={"service.name": "tests"},
            clock=self.clock,
            chance=random.Random(seed),
        )


@asynccontextmanager
async def sending(seed: int = 1) -> AsyncIterator[Sending]:
    async with otlp_receiver() as receiver:
        yield Sending(receiver, seed)


async def test_spans_arrive_with_parents_links_times_and_attributes() -> None:
    async with sending() as to:
        with to.tracer.span("plan", parent=OUTSIDE, links=[OUTSIDE], pods=3) as plan:
            plan.note(machines=["a", "b"], cost=0.5)
            with to.tracer.span("create machine", start=1.7e9 - 2):
                to.clock.advance(1.5)
        await to.tracer.close()
        (outer,), (inner,) = to.receiver.named("plan"), to.receiver.named("create machine")
    assert outer.service == "tests"
    assert {outer.trace, inner.trace} == {trace_id(OUTSIDE)}
    assert (outer.parent, inner.parent) == ("b7ad6b7169203331", outer.id)
    assert outer.links == (trace_id(OUTSIDE),)
    assert outer.attributes == {"pods": 3, "machines": ["a", "b"], "cost": 0.5}
    assert (outer.start, outer.end) == (1.7e9, 1.7e9 + 1.5)
    assert (inner.start, inner.end) == (1.7e9 - 2, 1.7e9 + 1.5)
    assert not outer.failed


async def test_a_span_says_what_failed_in_it_and_a_retry_is_no_failure() -> None:
    async with sending() as to:
        with pytest.raises(ValueError, match="no"), to.tracer.span("a", parent=""):
            raise ValueError("no such pool")
        with pytest.raises(RetryLater), to.tracer.span("b", parent=""):
            raise RetryLater(2.0, "not yet")
        to.tracer.record("c", parent="", start=1.0, end=2.0, error="InsufficientInstanceCapacity")
        await to.tracer.close()
        spans = {span.name: span for span in to.receiver.spans}
    assert (spans["a"].failed, spans["a"].message) == (True, "ValueError: no such pool")
    assert (spans["b"].failed, spans["b"].attributes) == (False, {"again": "not yet"})
    assert (spans["c"].failed, spans["c"].message) == (True, "InsufficientInstanceCapacity")


async def test_the_handling_of_a_message_belongs_to_its_trace_and_to_no_other() -> None:
    envelope = Envelope(id="1", type="LaunchMachine", key="NodeClaim/a", body=b"{}", at=1.7e9 - 3)
    async with sending() as to:
        with to.tracer.message(envelope, "consume launches"):
            assert current_trace.get() == ""
        with to.tracer.message(replace(envelope, trace=OUTSIDE), "consume launches"):
            assert trace_id(current_trace.get()) == trace_id(OUTSIDE)
        assert current_trace.get() == ""
        await to.tracer.close()
        (span,) = to.receiver.spans
    assert span.name == "handle LaunchMachine"
    assert span.attributes == {
        "consumer": "consume launches", "key": "NodeClaim/a", "waited_seconds": 3.0, "attempt": 0,
    }  # fmt: skip


async def test_a_trace_that_somebody_chose_not_to_record_stays_so() -> None:
    async with sending() as to:
        with to.tracer.span("plan", parent=NOT_SAMPLED) as span:
            assert span.traceparent.endswith("-00")
        await to.tracer.close()
        assert to.receiver.spans == []
    assert not to.dropped


async def test_ids_come_from_the_source_of_chance() -> None:
    ids = []
    for seed in (7, 7, 8):
        async with sending(seed) as to:
            ids.append(to.tracer.record("a", parent="", start=1.0, end=2.0))
            await to.tracer.close()
    assert ids[0] == ids[1] != ids[2]
    assert Ids(random.Random(1)).generate_span_id() > 0


class Stuck(SpanExporter):
    """A collector that answers only when it is let go."""

    def __init__(self) -> None:
        self.go, self.entered, self.sent = threading.Event(), threading.Event(), 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.go.wait(60)
        self.sent += len(spans)
        return SpanExportResult.SUCCESS


def tracer_with(
    exporter: SpanExporter, dropped: Callable[[str, int], None], most: int
) -> OtlpTracer:
    return OtlpTracer(
        exporter,
        dropped,
        resource={},
        clock=SystemClock(),
        chance=random.Random(1),
        most_waiting=most,
    )


async def test_a_collector_that_hangs_costs_spans_and_no_time() -> None:
    """What finds no room in the queue is counted; what waited is sent when the collector answers again."""
    stuck, dropped = Stuck(), Counter[str]()
    tracer = tracer_with(stuck, lambda reason, n: dropped.update({reason: n}), 100)
    for _ in range(250):
        tracer.record("a", parent="", start=1.0, end=2.0)
    assert dropped == {"queue_full": 150}
    stuck.go.set()
    await tracer.close()
    assert stuck.sent == 100


async def test_a_service_stops_while_the_collector_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.runtime.tracing.otlp.CLOSE_SECONDS", 0.05)
    stuck = Stuck()
    tracer = tracer_with(stuck, lambda *_: None, 100)
    tracer.record("a", parent="", start=1.0, end=2.0)
    async with asyncio.timeout(10):
        await tracer.close()
    assert stuck.entered.wait(10)
    stuck.go.set()


class Broken(SpanExporter):
    """Raises once, refuses once, then works."""

    def __init__(self) -> None:
        self.calls = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.calls += 1
        if self.calls == 1:
            raise OSError("no route")
        return SpanExportResult.FAILURE if self.calls == 2 else SpanExportResult.SUCCESS


async def test_spans_that_are_not_sent_are_counted() -> None:
    dropped = Counter[str]()
    broken = Broken()
    tracer = tracer_with(broken, lambda reason, n: dropped.update({reason: n}), 2)
    for number in (1, 2, 3):
        tracer.record("a", parent="", start=1.0, end=2.0)
        tracer.record("b", parent="", start=1.0, end=2.0)  # a full batch is sent at once
        await wait_until(lambda wanted=number: broken.calls == wanted, "the batch was tried")  # type: ignore[misc]
        await wait_until(lambda: tracer._pipeline._waiting == 0, "the batch has left")
    await tracer.close()
    assert dropped == {"export_failed": 4}


async def test_no_collector_at_all_fails_nothing() -> None:
    dropped = Counter[str]()
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{free_port()}/v1/traces", timeout=0.2)
    tracer = tracer_with(exporter, lambda reason, n: dropped.update({reason: n}), 100)
    tracer.record("a", parent="", start=1.0, end=2.0)
    await tracer.close()
    assert dropped == {"export_failed": 1}
