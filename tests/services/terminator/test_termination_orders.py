"""F24: machine, node and instance end in any order, by whatever hand, and nothing is left (I1-I3)."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.resources import NODE_CLAIMS
from tests.services.conftest import Control
from tests.services.terminator.world import FINALIZER, Place, World
from tests.support.cluster.others import OTHERS_LABELS, others_claim

HANDS = ("delete machine", "delete node", "terminate instance", "strip node")
ORDERS = tuple(itertools.permutations(HANDS, 2))


async def act(world: World, place: Place, hand: str) -> None:
    node = world.store.find("nodes", place.node)
    machine = world.machine(place)
    if hand == "delete machine" and machine is not None:
        world.delete(place)
    elif hand == "delete node" and node is not None:
        world.delete_node(place.node)
    elif hand == "terminate instance":
        await world.cloud.ec2.terminate([place.instance])
        if node is not None:
            world.not_ready(place.node)
    elif hand == "strip node" and node is not None:
        world.store.patch("nodes", place.node, {"metadata": {"finalizers": None}})
        if world.store.find("nodes", place.node) is not None:
            world.delete_node(place.node)


async def play(world: World, chance: Random) -> None:
    """All orders at once, with a few turns between the two hands; at last the machine is deleted anyhow."""
    places = await world.places(chance.choice([V1, V1ALPHA5]) for _ in ORDERS)
    for place in places:
        world.pod(f"app-{place.node}", place.node)
    for index in range(2):
        for place, order in zip(places, ORDERS, strict=True):
            await act(world, place, order[index])
        for _ in range(chance.randint(0, 3)):
            await world.turn(chance.choice([1, 4, 20]))
    for place in places:
        await act(world, place, "delete machine")
    await world.until_gone(*places)
    assert world.control.alive() == []
    for place in places:
        assert len(world.pods(f"app-{place.node}")) == 1, "found a new home, once"


def test_there_are_twelve_orders() -> None:
    """F24: deletions by hand."""
    assert len(ORDERS) == 12


@pytest.mark.slow
async def test_whatever_goes_first_everything_goes(world: World) -> None:
    """F24: deletions by hand (TRM-02, TRM-03, TRM-17)."""
    await play(world, Random(24))


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_whatever_goes_first_everything_goes_fifty_times(world: World) -> None:
    """F24: 12 orders x 50 seeds."""
    for seed in range(50):
        await play(world, Random(seed))


async def test_what_eks_auto_mode_ends_is_not_ended_by_us(world: World, control: Control) -> None:
    """Its claims and nodes have the finalizer of ours, and it takes it off itself."""
    (theirs,) = await world.instances(1)
    world.node("theirs", theirs, labels=OTHERS_LABELS)
    await world.kube.create(NODE_CLAIMS, others_claim("theirs"))
    (ours,) = await world.places([V1])
    world.delete_node("theirs")
    world.store.delete(NODE_CLAIMS.plural, "theirs", group=NODE_CLAIMS.group)
    world.delete(ours)
    await world.until_gone(ours)
    for stored in (
        world.store.get("nodes", "theirs"),
        world.store.get(NODE_CLAIMS.plural, "theirs", group=NODE_CLAIMS.group),
    ):
        assert stored["metadata"]["finalizers"] == [FINALIZER]
    assert "unschedulable" not in world.store.get("nodes", "theirs")["spec"]
    assert len(control.alive()) == 1, "its instance runs"
