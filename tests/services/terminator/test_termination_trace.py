"""A machine's end as a trace: who ordered it, the drain, the end of the instance."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.kube.resources import NODE_CLAIMS
from shared.redis.bus.trace_context import current_trace
from shared.redis.messages import TerminateMachine, encode
from tests.services.terminator.world import Place, World
from tests.support.network.recorded_spans import RecordedSpans, trace_of

MADE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(world: World) -> RecordedSpans:
    """What the terminator records."""
    spans = RecordedSpans(world.clock)
    world.tracer = spans.tracer
    world.restart()
    return spans


async def traced(world: World) -> Place:
    """A NodeClaim whose making was traced, with its node."""
    place = (await world.places([V1]))[0]
    note = {"metadata": {"annotations": {keys.TRACE_ANNOTATION: MADE}}}
    await world.kube.patch(NODE_CLAIMS, place.machine, note)
    return place


async def order(world: World, place: Place, trace: str) -> None:
    message = TerminateMachine.model_validate({"kind": place.kind, "name": place.machine})
    token = current_trace.set(trace)
    try:
        await world.queue.handle(encode(message, cause="c", clock=world.clock))
    finally:
        current_trace.reset(token)


def seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


async def test_drain_and_end_stand_in_the_trace_of_the_message(
    world: World, spans: RecordedSpans
) -> None:
    place = await traced(world)
    begun = spans.begun("disrupt machine")
    await order(world, place, begun)
    world.delete(place)
    await world.until_gone(place)
    ended = {span.name: span for span in await spans.all() if span.name != "disrupt machine"}
    assert set(ended) == {"terminate machine", "drain node", "end instance"}
    assert {trace_of(span) for span in ended.values()} == {begun[3:35]}
    whole = ended["terminate machine"]
    assert [f"{link.context.trace_id:032x}" for link in whole.links] == [MADE[3:35]]
    assert seconds(whole) >= seconds(ended["drain node"]) >= world.settings.drain_minimum - 1
    assert (ended["end instance"].attributes or {})["instance"] == place.instance
    assert all(span.status.is_unset for span in ended.values())


async def test_a_deletion_by_a_person_begins_a_trace(world: World, spans: RecordedSpans) -> None:
    place = await traced(world)
    world.delete(place)
    await world.until_gone(place)
    names = [span.name for span in await spans.all()]
    assert sorted(names) == ["drain node", "end instance", "terminate machine"]


async def test_a_drain_that_was_cut_off_is_an_error(world: World, spans: RecordedSpans) -> None:
    place = await traced(world)
    world.stuck.add("web")
    world.pod("web", place.node)
    soon = {keys.TERMINATION_TIMESTAMP: rfc3339(world.clock.now() + 30)}
    await world.kube.patch(NODE_CLAIMS, place.machine, {"metadata": {"annotations": soon}})
    world.delete(place)
    await world.until_gone(place)
    (drain,) = [span for span in await spans.all() if span.name == "drain node"]
    assert drain.status.description == "not drained when the instance was ended"
