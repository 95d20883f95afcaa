"""Plans for any input are valid by an independent checker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint, Toleration
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, PreferredTerm
from tests.support.planning.builders import (
    ZONES,
    amounts,
    make_bound_pod,
    make_catalogue,
    make_daemon_set,
    make_machine,
    make_node,
    make_pod,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
    make_type,
)
from tests.support.planning.snapshots import check_plan, plan_for

FAMILY = keys.AWS_PREFIX + "instance-family"
OS_AND_ARCH = (Expression(keys.OS, "In", ("linux",)), Expression(keys.ARCH, "In", ("amd64",)))
TAINT = Taint("dedicated", "NoSchedule", "x")
PREFERRED_TAINT = Taint("rather", "PreferNoSchedule", "not")

PLACES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"node_selector": {keys.ZONE: ZONES[1]}},
    {"node_selector": {"team": "red"}},
    {"node_selector": {"team": "blue"}},
    {"node_selector": {keys.CAPACITY_TYPE: keys.SPOT}},
    {"required_terms": ((Expression(keys.ZONE, "NotIn", (ZONES[0],)),),)},
    {"required_terms": ((Expression("team", "NotIn", ("red",)),),)},
    {"required_terms": ((Expression(FAMILY, "NotIn", ("c5",)),),)},
    {
        "required_terms": (
            (Expression("team", "In", ("blue",)),),
            (Expression(FAMILY, "In", ("m5",)), Expression(keys.ZONE, "In", ZONES[1:])),
        )
    },
    {"preferred_terms": (PreferredTerm(5, (Expression(keys.ZONE, "In", ("nowhere",)),)),)},
    {"preferred_terms": (PreferredTerm(5, (Expression(FAMILY, "In", ("c5",)),)),)},
)
RULES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"spread": (make_spread(keys.ZONE),)},
    {"spread": (make_spread(keys.ZONE, 2, match_labels={"app": "db"}),)},
    {"spread": (make_spread(keys.ZONE, min_domains=3), make_spread(keys.HOSTNAME, 2))},
    {"spread": (make_spread(keys.CAPACITY_TYPE),)},
    {"spread": (make_spread(keys.HOSTNAME, 2, hard=False),)},
    {"anti_affinity": (make_term(keys.HOSTNAME),)},
    {"anti_affinity": (make_term(keys.ZONE, "db"),)},
    {"anti_affinity": (make_term(keys.HOSTNAME, weight=7),)},
    {"affinity": (make_term(keys.ZONE),)},
    {"affinity": (make_term(keys.HOSTNAME, "db"),)},
    {"host_ports": (("TCP", "", 80),)},
    {"host_ports": (("TCP", "10.0.0.1", 80), ("UDP", "", 53))},
)


RULES_OF_RUNS: tuple[dict[str, Any], ...] = (
    {},
    {"anti_affinity": (make_term(keys.HOSTNAME, "a1"),)},
    {"anti_affinity": (make_term(keys.HOSTNAME, "a0"),)},
    {"anti_affinity": (make_term(keys.HOSTNAME, "a1", weight=3),)},
    {"spread": (make_spread(keys.HOSTNAME, match_labels={"app": "a1"}),)},
    {"spread": (make_spread(keys.HOSTNAME, 2, match_labels={"app": "a1"}),)},
    {
        "spread": (
            make_spread(keys.HOSTNAME, match_labels={"app": "a1"}, node_taints_policy="Honor"),
        )
    },
)


@st.composite
def workloads(draw: st.DrawFn) -> list[Pod]:
    """Up to six deployments of up to eight pods."""
    found = []
    for i in range(draw(st.integers(0, 6))):
        cpu = draw(st.sampled_from(["100m", "900m", "3", "20", "900"]))
        memory = draw(st.sampled_from(["64Mi", "2Gi", "30Gi"]))
        pod = make_pod(
            f"{i}",
            cpu,
            memory,
            labels={"app": draw(st.sampled_from(["web", "db"]))},
            tolerations=draw(st.sampled_from([(), (), (Toleration("dedicated", "Exists"),)])),
            **draw(st.sampled_from(PLACES)),
            **draw(st.sampled_from(RULES)),
        )
        for j in range(draw(st.integers(1, 8))):
            found.append(replace(pod, uid=f"uid-{i}-{j}", name=f"{i}-{j}"))
    return found


@st.composite
def catalogues(draw: st.DrawFn) -> tuple[InstanceType, ...]:
    """Two families with their own prices, zones and capacity types."""
    sizes = draw(st.sets(st.sampled_from([2, 4, 8, 32]), min_size=1))
    found = []
    for family, gib, cent in (("m5", 4, 5), ("c5", 2, 4)):
        zones = draw(st.sampled_from([ZONES, ZONES[:2], ZONES[1:]]))
        kinds = draw(st.sampled_from([(keys.ON_DEMAND,), (keys.ON_DEMAND, keys.SPOT)]))
        for cpu in sorted(sizes):
            shape = make_type(
                f"{family}.x{cpu}", cpu, cpu * gib, cpu * cent * 10_000,
                zones=zones, capacity_types=kinds,
            )  # fmt: skip
            found.append(shape)
    return tuple(found)


@st.composite
def node_pools(draw: st.DrawFn) -> tuple[NodePool, ...]:
    """One to three pools with weights, limits, taints, labels, minValues."""
    red = make_pool(
        "red",
        requirements=OS_AND_ARCH,
        labels={"team": "red"},
        taints=draw(st.sampled_from([(), (TAINT,)])),
        weight=draw(st.sampled_from([0, 3])),
        limits=draw(st.sampled_from([{}, {"cpu": 40_000}, {"nodes": 2}])),
    )
    spread_out = Expression(keys.INSTANCE_TYPE, "Exists", (), draw(st.sampled_from([None, 2])))
    blue = make_pool(
        "blue",
        requirements=(
            *OS_AND_ARCH,
            Expression(keys.CAPACITY_TYPE, "In", (keys.ON_DEMAND,)),
            Expression("team", "In", ("blue", "green")),
            spread_out,
        ),
        taints=draw(st.sampled_from([(), (PREFERRED_TAINT,)])),
    )
    plain = make_pool(
        "plain",
        generation_api="v1",
        requirements=(*OS_AND_ARCH, Expression(keys.ZONE, "In", ZONES[:2])),
        limits=draw(st.sampled_from([{}, amounts(cpu="100", memory="300Gi")])),
    )
    return tuple(
        draw(
            st.lists(
                st.sampled_from([red, blue, plain]), min_size=1, unique_by=lambda pool: pool.name
            )
        )
    )


@st.composite
def standing(draw: st.DrawFn) -> tuple[tuple[Node, ...], tuple[Machine, ...], tuple[Pod, ...]]:
    """Nodes with running pods, and a machine without a node."""
    nodes, pods = [], []
    for i in range(draw(st.integers(0, 3))):
        node = make_node(
            f"node-{i}",
            labels=draw(st.sampled_from([{}, {keys.ZONE: ZONES[1]}, {"team": "red"}])),
            taints=draw(st.sampled_from([(), (), (TAINT,)])),
            unschedulable=draw(st.sampled_from([False, False, True])),
        )
        nodes.append(node)
        labels, rules = {"app": draw(st.sampled_from(["web", "db"]))}, draw(st.sampled_from(RULES))
        pods.append(make_bound_pod(f"busy-{i}", node.name, cpu="1", labels=labels, **rules))
    requirements = (*OS_AND_ARCH, Expression(keys.INSTANCE_TYPE, "In", ("m5.x4", "m5.x8")))
    coming = make_machine(
        requirements=(*requirements, *draw(st.sampled_from([(), (_in_zone(ZONES[1]),)])))
    )
    machines = (coming,) if draw(st.booleans()) else ()
    return tuple(nodes), machines, tuple(pods)


def _in_zone(zone: str) -> Expression:
    return Expression(keys.ZONE, "In", (zone,))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Snapshots that mix all kinds of input."""
    nodes, machines, running = draw(standing())
    daemon = make_daemon_set(host_ports=draw(st.sampled_from([(), (("TCP", "", 80),)])))
    sold_out = frozenset((keys.SPOT, "m5.x4", zone) for zone in ZONES)
    return make_snapshot(
        *draw(workloads()),
        *running,
        pools=draw(node_pools()),
        node_classes=_classes(),
        catalogue=make_catalogue(draw(catalogues())),
        nodes=nodes,
        machines=machines,
        daemon_sets=(daemon,) if draw(st.booleans()) else (),
        unavailable=draw(st.sampled_from([frozenset(), sold_out])),
    )


def _classes() -> Any:
    """One node class per API generation."""
    return tuple(
        replace(make_snapshot().node_classes[0], generation_api=api) for api in ("v1alpha5", "v1")
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots())
def test_every_plan_is_sound(policy: str, snapshot: Snapshot) -> None:
    check_plan(plan_for(snapshot, packing_policy=policy, effort=20), snapshot)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots())
def test_pods_that_move_are_planned_as_if_they_waited(snapshot: Snapshot) -> None:
    """A terminating node is cordoned, and its pods are planned like others (POD-09)."""
    moving = frozenset(p.uid for p in snapshot.pods if p.node_name == "node-0")
    nodes = tuple(replace(n, unschedulable=n.name == "node-0") for n in snapshot.nodes)
    leaving = replace(snapshot, nodes=nodes)
    check_plan(plan_for(leaving, *sorted(moving)), leaving, moving)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([100, 350, 900, 1700, 2600, 7000])),
        max_size=6,
    ),
    st.sampled_from(RULES_OF_RUNS),
)
def test_a_batch_gives_the_same_machines_as_pod_by_pod(
    runs: list[tuple[int, int]], rules: dict[str, Any]
) -> None:
    """Runs of equal pods only save time: the plan is the same with one class per pod (SCH-32)."""
    found = [
        make_pod(f"{i}-{j:02d}", cpu=f"{cpu}m", labels={"app": f"a{i % 2}"}, **(rules if i else {}))
        for i, (count, cpu) in enumerate(runs)
        for j in range(count)
    ]
    distinct = [replace(p, tolerations=(Toleration(p.name, "Exists"),)) for p in found]
    small: dict[str, Any] = {
        "catalogue": make_catalogue((make_type("m5.a", 4, 16), make_type("m5.b", 8, 16))),
        "nodes": (make_node("node-0", cpu="3"), make_node("node-1", cpu="2")),
    }
    assert plan_for(make_snapshot(*found, **small)) == plan_for(make_snapshot(*distinct, **small))
