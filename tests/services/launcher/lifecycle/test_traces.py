"""How long a machine took to become a node, and why it did not, in its trace."""

from __future__ import annotations

import pytest

from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.kube.resources import MACHINES, NODES
from tests.services.launcher.lifecycle.test_controller import NODE, PROVIDER_ID, launched, review
from tests.services.launcher.lifecycle_world import World
from tests.support.network.recorded_spans import RecordedSpans, trace_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(world: World) -> RecordedSpans:
    """What the launcher records."""
    spans = RecordedSpans(world.clock)
    world.ports.tracer = spans.tracer
    return spans


@pytest.fixture
async def machine(world: World) -> Machine:
    """Launched, by a plan with a trace."""
    made = await launched(world)
    note = {"metadata": {"annotations": {keys.TRACE_ANNOTATION: TRACE}}}
    await world.kube.patch(MACHINES, made.name, note)
    return await world.now(made)


async def test_the_boot_and_the_way_to_ready_are_spans_between_conditions(
    world: World, machine: Machine, spans: RecordedSpans
) -> None:
    world.clock.advance(40)
    await world.join(machine)
    await world.lifecycle.node_changed(NODE)
    world.clock.advance(5)
    await world.kube.patch(NODES, NODE, {"spec": {"taints": []}})
    await world.lifecycle.node_changed(NODE)
    boot, ready = await spans.all()
    assert (boot.name, ready.name) == ("register node", "node ready")
    assert {trace_of(boot), trace_of(ready)} == {TRACE[3:35]}
    seconds = [((s.end_time or 0) - (s.start_time or 0)) / 1e9 for s in (boot, ready)]
    assert seconds == pytest.approx([40, 5], abs=1), "a condition has whole seconds"
    about = dict(boot.attributes or {})
    assert (about["node"], about["instance"]) == (NODE, PROVIDER_ID.rpartition("/")[2])
    assert boot.status.is_unset


async def test_a_machine_whose_node_never_came_failed_by_its_reason(
    world: World, machine: Machine, spans: RecordedSpans
) -> None:
    await review(world, machine)
    world.clock.advance(910)
    await review(world, machine)
    (given_up,) = await spans.all()
    assert given_up.name == "give up machine"
    assert (given_up.attributes or {})["reason"] == "registration_timeout"
    assert not given_up.status.is_ok
    assert given_up.status.description


async def test_a_machine_without_a_trace_is_left_out(world: World, spans: RecordedSpans) -> None:
    machine = await launched(world)
    await world.join(machine)
    await world.lifecycle.node_changed(NODE)
    assert await spans.all() == []
