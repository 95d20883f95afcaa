"""Bounds of removals: they refuse only what a simulation refuses too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.disruption.methods.consolidation import by_simulation, compute
from shared.disruption.records import Command, World
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.workloads.pods import Pod
from tests.support.planning.builders import ZONES, make_bound_pod, make_pod, make_pool, make_spread
from tests.support.planning.disruption import make_cluster, make_running, make_world

POOL = make_pool(
    generation_api=V1, consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0,
    budgets=(Budget("100%"),),
)  # fmt: skip
NODES = ("a", "b", "c", "d", "e")
TYPES = ("m5.x004", "m5.x004", "m5.x008")


@st.composite
def pods(draw: st.DrawFn, number: int) -> Pod:
    """A pod on one of the nodes, or one that waits; some are large for the nodes."""
    cpu = draw(st.sampled_from(("300m", "700m", "1", "1500m", "3")))
    memory = draw(st.sampled_from(("128Mi", "1Gi", "6Gi")))
    rules = draw(
        st.sampled_from(({}, {}, {"spread": (make_spread("topology.kubernetes.io/zone"),)}))
    )
    node = draw(st.sampled_from((*NODES, *NODES, "")))
    if node:
        return make_bound_pod(f"pod-{number}", node, cpu=cpu, memory=memory, **rules)
    return make_pod(f"pod-{number}", cpu=cpu, memory=memory, **rules)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Five nodes of two sizes, most of them well filled."""
    running = [
        make_running(name, draw(st.sampled_from(TYPES)), ZONES[i % 2], pool=POOL)
        for i, name in enumerate(NODES)
    ]
    found = [draw(pods(number)) for number in range(draw(st.integers(8, 20)))]
    return make_world(make_cluster(running, *found, pools=(POOL,)))


def check(world: World, first: int, count: int) -> None:
    going = (world.candidates[first:] + world.candidates[:first])[:count]
    quick, whole = compute(world, going, "m"), by_simulation(world, going, "m")
    assert isinstance(quick, Command) == isinstance(whole, Command)
    if isinstance(whole, Command):
        assert quick == whole


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 4), st.integers(1, 4))
def test_the_bound_changes_no_command(world: World, first: int, count: int) -> None:
    """With it and without it consolidation decides the same (CON-03..08)."""
    check(world, first, count)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@settings(max_examples=1000, deadline=None)
@given(worlds(), st.integers(0, 4), st.integers(1, 4))
def test_the_bound_changes_no_command_of_many(world: World, first: int, count: int) -> None:
    """As above (CON-03..08)."""
    check(world, first, count)


def bound(world: World, count: int = 1) -> int:
    """The highest price that the pods of the first machines certainly cost, of those that are on offer; 0 if none."""
    going = world.candidates[:count]
    offers = (o for kind in world.snapshot.catalogue.types for o in kind.offerings)
    prices = sorted({offer.price_micro_usd_per_hour for offer in offers})
    return max((p for p in prices if world.bounds.costs(world.snapshot, going, p)), default=0)


def two_nodes(*pods: Pod) -> World:
    running = [make_running(name, "m5.x004", pool=POOL) for name in "ab"]
    return make_world(make_cluster(running, *pods, pools=(POOL,)))


def on(node: str, name: str, cpu: str) -> Pod:
    return make_bound_pod(name, node, cpu=cpu, memory="128Mi")


def test_pods_that_may_find_room_elsewhere_need_nothing() -> None:
    assert bound(two_nodes(on("a", "one", "1"))) == 0
    assert bound(two_nodes()) == 0


def test_pods_without_room_elsewhere_need_a_machine_that_holds_all_of_them() -> None:
    full = on("b", "full", "3500m")
    small, large = two_nodes(on("a", "one", "1"), full), two_nodes(on("a", "one", "3"), full)
    assert 0 < bound(small) < bound(large)
    assert bound(two_nodes(on("a", "one", "1500m"), on("a", "two", "1500m"), full)) == bound(large)


def test_of_equal_pods_those_count_for_which_no_place_is_left() -> None:
    """Node b has room for two of three."""
    three = [on("a", f"pod-{i}", "1") for i in range(3)]
    found = two_nodes(*three, on("b", "some", "1500m"))
    assert 0 < bound(found) == bound(two_nodes(three[0], on("b", "full", "3500m")))


def test_machines_that_go_together_are_no_room_for_one_another() -> None:
    found = two_nodes(on("a", "one", "1"), on("b", "two", "1"))
    assert bound(found) == 0
    assert bound(found, 2) > 0


def test_what_no_pool_can_buy_costs_more_than_anything() -> None:
    world = two_nodes(on("a", "one", "3"), on("b", "full", "3500m"))
    closed = replace(world.snapshot, pools=(replace(POOL, terminating=True),))
    assert world.bounds.costs(closed, world.candidates[:1], 10**15)
