"""A pod that becomes unschedulable begins a trace, which its message carries."""

from __future__ import annotations

from typing import Any

from services.watcher.mirror.journal import Journal
from shared.redis import streams
from shared.redis.bus import Bus, Envelope
from shared.redis.bus.connection import call, pairs
from shared.redis.bus.trace_context import trace_id
from shared.redis.mirror import MirrorWriter
from tests.services.watcher.mirror.test_journal import note, running
from tests.support.clock.fake import FakeClock
from tests.support.network.recorded_spans import RecordedSpans, trace_of
from tests.support.planning.builders import make_bound_pod, make_node, make_pod
from tests.support.waiting import wait_until


async def envelopes(bus: Bus, stream: str) -> list[Envelope]:
    entries: list[Any] = await call(bus.redis, "read", "XRANGE", bus.prefix + stream, "-", "+")
    return [Envelope.decode(pairs(fields)) for _, fields in entries]


async def test_it_begins_with_the_watch_event_and_ends_before_the_message(
    bus: Bus, redis_url: str
) -> None:
    """A node that joins and a pod that runs begin none."""
    clock = FakeClock(wall=1.7e9)
    spans = RecordedSpans(clock)
    journal = Journal(MirrorWriter(bus.redis, bus.prefix, epoch="a"), bus, clock, spans.tracer)
    async with running(journal, bus, redis_url):
        note(journal, "pods", make_pod("waits"))
        note(journal, "pods", make_bound_pod("runs", "n"))
        note(journal, "nodes", make_node("n", provider_id="aws:///us-west-2a/i-1"))
        clock.advance(3)

        async def sent() -> bool:
            return bool(await envelopes(bus, streams.PODS))

        await wait_until(sent, "the message about the pod")
    (envelope,) = await envelopes(bus, streams.PODS)
    assert [one.trace for one in await envelopes(bus, streams.MACHINES)] in ([], [""])
    (span,) = await spans.all()
    assert (span.name, trace_of(span)) == ("pod unschedulable", trace_id(envelope.trace))
    assert span.parent is None
    assert (span.attributes or {})["pod"] == "default/waits"
    assert (span.start_time, span.end_time) == (int(1.7e9 * 1e9), int((1.7e9 + 3) * 1e9))


async def test_without_tracing_the_message_has_no_trace(bus: Bus, redis_url: str) -> None:
    writer = MirrorWriter(bus.redis, bus.prefix, epoch="a")
    journal = Journal(writer, bus, FakeClock(wall=1.7e9))
    async with running(journal, bus, redis_url):
        note(journal, "pods", make_pod("waits"))

        async def sent() -> bool:
            return bool(await envelopes(bus, streams.PODS))

        await wait_until(sent, "the message about the pod")
    assert [one.trace for one in await envelopes(bus, streams.PODS)] == [""]
