"""Folding pods for simulations never changes a plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.disruption.folding import fold
from shared.disruption.records import World
from shared.disruption.simulation import simulate, without
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.snapshot import moving_pods
from shared.domain.workloads.namespaces import NamespaceSelector
from shared.domain.workloads.pods import AffinityTerm, Owner, Pod
from shared.solver.plan import Plan
from shared.solver.solve import solve
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_daemon_set,
    make_pod,
    make_pool,
    make_spread,
    make_term,
)
from tests.support.planning.disruption import make_cluster, make_running, make_world, pods_on

POOL = make_pool(
    generation_api=V1, consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0,
    budgets=(Budget("100%"),),
)  # fmt: skip
NODES = ("a", "b", "c", "d", "e")
NAMELESS = AffinityTerm(
    keys.HOSTNAME, expressions=(Expression("app", "DoesNotExist"),), namespaces=()
)
BY_NAMESPACE = AffinityTerm(
    keys.ZONE, {"app": "web"}, namespace_selector=NamespaceSelector({"team": "one"})
)
RULES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"spread": (make_spread(keys.ZONE),)},
    {"spread": (make_spread(keys.HOSTNAME, match_label_keys=("hash",)),)},
    {"affinity": (make_term(keys.ZONE, "db"),)},
    {"anti_affinity": (make_term(keys.HOSTNAME, "web"),)},
    {"anti_affinity": (NAMELESS,)},
    {"anti_affinity": (BY_NAMESPACE,)},
    {"host_ports": (("TCP", "0.0.0.0", 8080),)},
    {"owner": Owner("DaemonSet", "agent", "daemon-agent")},
    {"terminating": True},
    {"priority": 7, "node_selector": {keys.ZONE: ZONES[0]}},
)


@st.composite
def pods(draw: st.DrawFn, number: int) -> Pod:
    """A pod that runs on one of the nodes, or is pending."""
    changes = dict(draw(st.sampled_from(RULES)))
    app, hash_ = draw(st.sampled_from(("web", "db", ""))), draw(st.sampled_from(("x", "y")))
    changes["labels"] = {"app": app, "hash": hash_} if app else {"hash": hash_}
    changes["namespace"] = draw(st.sampled_from(("default", "other")))
    changes["cpu"] = draw(st.sampled_from(("100m", "500m", "1", "1500m")))
    node = draw(st.sampled_from((*NODES, *NODES, "")))
    name = f"pod-{number}"
    return make_bound_pod(name, node, **changes) if node else make_pod(name, **changes)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Five nodes, one of which may be terminating."""
    running = [
        make_running(name, draw(st.sampled_from(("m5.x004", "m5.x008"))), ZONES[i % 2], pool=POOL)
        for i, name in enumerate(NODES)
    ]
    if draw(st.booleans()):
        last = running[-1]
        running[-1] = last._replace(machine=replace(last.machine, terminating=True))
    count = draw(st.integers(4, 18))
    found = [draw(pods(number)) for number in range(count)]
    return make_world(
        make_cluster(running, *found, pools=(POOL,), daemon_sets=(make_daemon_set("agent"),))
    )


def unfolded(world: World, count: int) -> Plan:
    """The same simulation without folding."""
    candidates = world.candidates[:count]
    snapshot = without(world.snapshot, candidates)
    moved = {pod.uid for candidate in candidates for pod in candidate.pods}
    reschedule = moving_pods(snapshot) | moved
    return solve(
        snapshot, now=world.now, settings=world.solver, reschedule=reschedule, bounded=False
    )


def check(world: World, counts: list[int]) -> None:
    for count in counts:
        assert simulate(world, world.candidates[:count]).plan == unfolded(world, count)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(worlds(), st.permutations((1, 2, 3)))
def test_folded_and_whole_clusters_get_the_same_plans(world: World, counts: list[int]) -> None:
    """One folding serves simulations of different sets, in any order (CON-03)."""
    check(world, counts)


@pytest.mark.nightly
@settings(max_examples=200, deadline=None)
@given(worlds(), st.permutations((1, 2, 3)))
def test_many_folded_and_whole_clusters_get_the_same_plans(world: World, counts: list[int]) -> None:
    """Which pods a simulation must place (CON-03)."""
    check(world, counts)


def test_daemons_stay_whole() -> None:
    """The newest pod of a daemon set, on any node, decides its requests on each node (SCH-46)."""
    agent = Owner("DaemonSet", "agent", "daemon-agent")
    daemons = [make_bound_pod(f"agent-{i}", "n1", cpu="300m", owner=agent) for i in range(2)]
    found = fold(make_cluster([make_running(pool=POOL)], *pods_on("n1", 3), *daemons))
    assert sorted(pod.requests["cpu"] for pod in found.folded["n1"]) == [300, 300, 1500]


def test_pods_that_only_take_room_become_one_per_node() -> None:
    """3 web pods that a rule counts stay, and 20 others become one."""
    running = [make_running("a", "m5.x032", pool=POOL), make_running("b", pool=POOL)]
    counted = tuple(
        make_bound_pod(f"web-{i}", "a", labels={"app": "web"}, spread=(make_spread(keys.ZONE),))
        for i in range(3)
    )
    snapshot = make_cluster(running, *pods_on("a", 20), *counted, pools=(POOL,))
    found = fold(snapshot)
    assert len(found.without(frozenset()).pods) == 4
    assert sum(pod.requests["cpu"] for pod in found.folded["a"]) == 20 * 500 + 3 * 100
    assert len(found.without({"a"}).pods) == 23


def test_a_picture_is_folded_once_and_another_one_anew() -> None:
    """Copies of a world share the folding, worlds of other pods do not; a single simulation does not fold."""
    world = make_world(make_cluster([make_running(pool=POOL)], *pods_on("n1", 2), pools=(POOL,)))
    snapshot = world.snapshot
    assert len(world.folding.pods_of(snapshot).folded["n1"]) == 2
    folded = world.folding.pods_of(snapshot)
    assert len(folded.folded["n1"]) == 1
    assert replace(world, candidates=()).folding.pods_of(snapshot) is folded
    emptied = replace(snapshot, pods=())
    assert world.folding.pods_of(emptied).whole == {}


def test_pods_stay_whole_where_plans_add_rules() -> None:
    """The cluster's default spread constraints count pods that no pod's rule selects (SCH-85)."""
    snapshot = make_cluster([make_running(pool=POOL)], *pods_on("n1", 2), pools=(POOL,))
    world = make_world(snapshot)
    for _ in range(2):
        assert len(world.folding.pods_of(snapshot, keep_whole=True).folded["n1"]) == 2
