"""Removals planned on a cluster that was read once: the same plans as whole ones."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.disruption.folding import Folding
from shared.disruption.methods.consolidation import compute
from shared.disruption.records import World
from shared.disruption.removals.prepared import Prepared, Preparing
from shared.disruption.simulation import Simulation, simulate_one_machine
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.workloads.pods import Owner, Pod
from shared.solver.solve import SolverSettings
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
NODES = ("a", "b", "c", "d", "e", "f")
RULES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"spread": (make_spread(keys.ZONE),)},
    {"spread": (make_spread(keys.ZONE, node_taints_policy="Honor"), make_spread(keys.HOSTNAME))},
    {"spread": (make_spread(keys.ZONE, when_unsatisfiable="ScheduleAnyway"),)},
    {"spread": (make_spread(keys.HOSTNAME, match_label_keys=("hash",)),)},
    {"affinity": (make_term(keys.ZONE, "db"),)},
    {"affinity": (make_term(keys.HOSTNAME, "web", weight=3),)},
    {"anti_affinity": (make_term(keys.HOSTNAME, "web"),)},
    {"anti_affinity": (make_term(keys.ZONE, "db"), make_term(keys.HOSTNAME, "db"))},
    {"anti_affinity": (make_term(keys.ZONE, "web", weight=1),)},
    {"node_selector": {keys.ZONE: ZONES[0]}, "spread": (make_spread(keys.ZONE),)},
    {"owner": Owner("DaemonSet", "agent", "daemon-agent")},
    {"terminating": True},
)


@st.composite
def pods(draw: st.DrawFn, number: int) -> Pod:
    """A pod that runs on one of the nodes, or one that waits."""
    changes = dict(draw(st.sampled_from(RULES)))
    app, hash_ = draw(st.sampled_from(("web", "db", ""))), draw(st.sampled_from(("x", "y")))
    changes["labels"] = {"app": app, "hash": hash_} if app else {"hash": hash_}
    changes["cpu"] = draw(st.sampled_from(("100m", "500m", "1", "1500m", "2500m")))
    node = draw(st.sampled_from((*NODES, *NODES, *NODES, "")))
    name = f"pod-{number}"
    return make_bound_pod(name, node, **changes) if node else make_pod(name, **changes)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Six nodes, of which one may be terminating and one may be starting; pools with a limit and without."""
    limits = draw(st.sampled_from(({}, {}, {"cpu": 40_000})))
    pool = replace(POOL, limits=limits)
    running = [
        make_running(name, draw(st.sampled_from(("m5.x004", "m5.x008"))), ZONES[i % 2], pool=pool)
        for i, name in enumerate(NODES)
    ]
    if draw(st.booleans()):
        one = running[-1]
        running[-1] = one._replace(machine=replace(one.machine, terminating=True))
    if draw(st.booleans()):
        one = running[-2]
        machine = replace(one.machine, conditions={}, node_name="", provider_id="i-starting")
        running[-2] = one._replace(machine=machine)
    found = [draw(pods(number)) for number in range(draw(st.integers(6, 24)))]
    daemons = (make_daemon_set("agent"),)
    cluster = make_cluster(running, *found, pools=(pool,), daemon_sets=daemons)
    known = {one.machine.node_name for one in running}
    nodes = tuple(node for node in cluster.nodes if node.name in known)
    return make_world(replace(cluster, nodes=nodes))


class Never(Preparing):
    """Prepares nothing."""

    def of(self, *_: Any) -> None:
        return None


def whole(world: World, first: int, count: int) -> Simulation:
    """As by a plan of the whole cluster."""
    alone = replace(world, folding=Folding(), preparing=Never())
    return simulate_one_machine(alone, _going(world, first, count))


def _going(world: World, first: int, count: int) -> Any:
    return (world.candidates[first:] + world.candidates[:first])[:count]


def without_id(found: Simulation) -> Simulation:
    """A plan without new machines has no use for its id."""
    return replace(found, plan=replace(found.plan, id="")) if not found.plan.machines else found


def check(world: World, removals: list[tuple[int, int]]) -> None:
    for first, count in removals:
        quick = simulate_one_machine(world, _going(world, first, count))
        assert without_id(quick) == without_id(whole(world, first, count))


SOME = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), min_size=2, max_size=5)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(worlds(), SOME)
def test_prepared_and_whole_clusters_get_the_same_plans(
    world: World, removals: list[tuple[int, int]]
) -> None:
    """What one removal places is no part of the next (CON-03)."""
    check(world, removals)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@settings(max_examples=1000, deadline=None)
@given(worlds(), SOME)
def test_many_prepared_and_whole_clusters_get_the_same_plans(
    world: World, removals: list[tuple[int, int]]
) -> None:
    """As above (CON-03)."""
    check(world, removals)


def plans_of(monkeypatch: pytest.MonkeyPatch, world: World, times: int) -> list[bool]:
    """Which of so many simulations were planned on a prepared cluster."""
    found: list[bool] = []
    real = Prepared.plan

    def seen(self: Prepared, *arguments: Any) -> Any:
        found.append((plan := real(self, *arguments)) is not None)
        return plan

    monkeypatch.setattr(Prepared, "plan", seen)
    for _ in range(times):
        simulate_one_machine(world, world.candidates[:1])
    return found


def two_nodes(*pods: Pod, **solver: Any) -> World:
    running = [make_running(name, pool=POOL) for name in "ab"]
    cluster = make_cluster(running, *pods_on("b", 2), *pods, pools=(POOL,))
    return make_world(cluster, solver=SolverSettings(**solver))


def test_all_simulations_of_a_pass_are_planned_on_one_prepared_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = two_nodes(*pods_on("a", 2))
    assert plans_of(monkeypatch, world, 2) == [True, True]
    prepared = world.preparing.of(world.snapshot, SolverSettings(), lambda snapshot: snapshot)
    copied = replace(world, candidates=())
    assert copied.preparing.of(world.snapshot, SolverSettings(), lambda one: one) is prepared


def test_pods_with_ports_need_a_whole_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    port = make_bound_pod("port", "a", host_ports=(("TCP", "0.0.0.0", 8080),))
    assert plans_of(monkeypatch, two_nodes(port), 1) == [False]


def test_settings_that_add_rules_to_pods_need_whole_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    world = two_nodes(*pods_on("a", 2), default_spread=(make_spread(keys.ZONE),))
    assert plans_of(monkeypatch, world, 1) == []


def test_a_pass_goes_to_another_process_without_what_it_prepared() -> None:
    world = two_nodes(*pods_on("a", 2))
    simulate_one_machine(world, world.candidates[:1])
    compute(world, world.candidates[:1], "m")
    again = pickle.loads(pickle.dumps(world))
    assert again.candidates == world.candidates
    assert simulate_one_machine(again, again.candidates[:1]) == simulate_one_machine(
        world, world.candidates[:1]
    )


def test_labels_that_rules_on_other_nodes_read_still_keep_pods_apart() -> None:
    """A rule of a daemon pod on the node that goes reads the same label as one on a node that stays (SCH-82)."""
    apart = (make_term(keys.HOSTNAME, "web"),)
    running = [make_running(name, pool=POOL) for name in "abc"]
    agent = Owner("DaemonSet", "agent", "daemon-agent")
    found = [
        make_bound_pod("agent", "a", owner=agent, anti_affinity=apart, labels={"app": "agent"}),
        make_bound_pod("first", "a", labels={"app": "db"}),
        make_bound_pod("second", "a", labels={"app": "web"}),
        make_bound_pod("guard", "b", anti_affinity=apart, labels={"app": "db"}),
    ]
    world = make_world(make_cluster(running, *found, pools=(POOL,)))
    check(world, [(0, 1)])
    plan = simulate_one_machine(world, world.candidates[:1]).plan
    assert plan.existing == {"b": ("uid-first",), "c": ("uid-second",)}
