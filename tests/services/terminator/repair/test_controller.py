"""Node repair against an API server and EC2 (TRM-20..TRM-22)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.terminator.ports import Ports
from services.terminator.repair.controller import RETRY_SECONDS, NodeRepair, snake_case
from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.machines import Machines
from tests.services.terminator.world import Place, World

TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
HALF_AN_HOUR = 1800


def open_gate(world: World, *, is_open: bool = True) -> Ports:
    """The terminator's ports where the gate is as said."""
    gates = f"NodeRepair={str(is_open).lower()}"
    return replace(world.queue.ports, settings=world.settings_with(feature_gates=gates))


@pytest.fixture
def repair(world: World) -> NodeRepair:
    return NodeRepair(
        open_gate(world), Machines(world.kube), lambda kind, name: world.queue.add(kind, name)
    )


def fall_ill(world: World, place: Place, condition: str = "Ready", status: str = "Unknown") -> None:
    since = rfc3339(world.clock.now())
    row = {"type": condition, "status": status, "lastTransitionTime": since}
    body = {"status": {"conditions": [row]}}
    world.store.patch("nodes", place.node, body, subresource="status")


def ordered_away(world: World, *places: Place) -> list[bool]:
    found = [world.machine(place) for place in places]
    return [one is None or "deletionTimestamp" in one["metadata"] for one in found]


@pytest.mark.parametrize("generation", [V1, V1ALPHA5])
async def test_an_ill_node_is_replaced_at_once(
    world: World, repair: NodeRepair, generation: str
) -> None:
    """TRM-22: its end is now, nothing holds its drain, and it is counted."""
    (place,) = await world.places([generation])
    held = {"karpenter.sh/do-not-disrupt": "true"}
    world.pod("db", place.node, annotations=held)
    fall_ill(world, place)
    world.clock.advance(HALF_AN_HOUR - 1)
    await repair.check()
    assert ordered_away(world, place) == [False]
    world.clock.advance(1)
    await repair.check()
    machine = world.machine(place)
    assert machine is not None
    written = machine["metadata"]["annotations"][TIMESTAMP]
    assert parse_rfc3339(written) == world.clock.now()
    assert machine["metadata"]["deletionTimestamp"]
    assert world.queue.open == [place.key]
    await world.step()
    assert world.control.alive() == [], "at once"
    await world.until_gone(place)
    registry = world.metrics.registry
    labels = {"condition": "ready", "nodepool": "default", "capacity_type": "", "image_id": ""}
    name = "karpenter_nodeclaims_unhealthy_disrupted_total"
    assert registry.get_sample_value(name, labels) == 1
    labels = {"reason": "unhealthy", "nodepool": "default", "capacity_type": ""}
    labels |= {"consolidation_policy": "", "termination_mode": "forceful"}
    assert registry.get_sample_value("karpenter_nodeclaims_disrupted_total", labels) == 1


async def test_nothing_is_repaired_without_the_gate(world: World, repair: NodeRepair) -> None:
    """TRM-20: NodeRepair=false by default; the gate counts at each look."""
    (place,) = await world.places([V1])
    fall_ill(world, place)
    world.clock.advance(2 * HALF_AN_HOUR)
    repair.ports = open_gate(world, is_open=False)
    await repair.check()
    assert ordered_away(world, place) == [False]
    repair.ports = open_gate(world)
    await repair.check()
    assert ordered_away(world, place) == [True]


@pytest.mark.parametrize("on_node", [True, False])
async def test_an_ill_node_that_somebody_wants_as_it_is_stays(
    world: World, repair: NodeRepair, events: Any, on_node: bool
) -> None:
    """TRM-23: the annotation of node or machine is read at each look, and an event says that it counts."""
    (place,) = await world.places([V1])
    fall_ill(world, place)
    world.clock.advance(HALF_AN_HOUR)

    def annotate(value: str) -> None:
        body = {"metadata": {"annotations": {"karpenter.sh/do-not-repair": value}}}
        if on_node:
            world.store.patch("nodes", place.node, body)
        else:
            world.store.patch("nodeclaims", place.machine, body, group="karpenter.sh")

    annotate("true")
    await repair.check()
    assert ordered_away(world, place) == [False]
    assert ("NodeRepairBlocked", place.node) in await events()
    annotate("false")
    await repair.check()
    assert ordered_away(world, place) == [True]


async def test_where_many_are_ill_none_is_repaired(
    world: World, repair: NodeRepair, events: Any
) -> None:
    """TRM-21: told once in 15 minutes, tried again after five; another pool is not concerned."""
    places = await world.places([V1, V1, V1, V1ALPHA5])
    for place in (*places[:2], places[3]):
        fall_ill(world, place)
    world.clock.advance(HALF_AN_HOUR)
    await repair.check()
    assert ordered_away(world, *places) == [False, False, False, True]
    fall_ill(world, places[0], status="True")
    world.clock.advance(RETRY_SECONDS - 1)
    await repair.check()
    assert ordered_away(world, places[1]) == [False]
    blocked = [one for one in await events() if one[0] == "NodeRepairBlocked"]
    names = [place.machine for place in places[:2]] + [place.node for place in places[:2]]
    assert sorted(name for _, name in blocked) == sorted(names)
    world.clock.advance(1)
    await repair.check()
    assert ordered_away(world, *places[:3]) == [False, True, False]


async def test_nodes_without_a_machine_of_ours_are_left_alone(
    world: World, repair: NodeRepair, events: Any
) -> None:
    """R1: a managed node group's node, however ill; it does count in the cluster."""
    world.node("foreign", "aws:///us-west-2a/i-0123456789abcdef0", labels={}, finalizers=())
    fall_ill(world, Place("NodeClaim", "none", "foreign", ""))
    world.clock.advance(HALF_AN_HOUR)
    await repair.check()
    assert "deletionTimestamp" not in world.store.get("nodes", "foreign")["metadata"]
    assert await events() == []


async def test_an_earlier_end_stays(world: World, repair: NodeRepair) -> None:
    """TRM-10: whoever set it."""
    (place,) = await world.places([V1])
    early = rfc3339(world.clock.now() - 60)
    note = {"metadata": {"annotations": {TIMESTAMP: early}}}
    world.store.patch("nodeclaims", place.machine, note, group="karpenter.sh")
    fall_ill(world, place, "AcceleratedHardwareReady", "False")
    world.clock.advance(600)
    await repair.check()
    machine = world.machine(place)
    assert machine is not None
    assert machine["metadata"]["annotations"][TIMESTAMP] == early
    assert machine["metadata"]["deletionTimestamp"]


def test_metrics_name_conditions_in_snake_case() -> None:
    """TRM-22: a repair does not wait."""
    assert snake_case("AcceleratedHardwareReady") == "accelerated_hardware_ready"
    assert snake_case("Ready") == "ready"
