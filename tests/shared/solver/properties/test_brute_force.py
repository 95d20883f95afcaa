"""Small cases are also solved by brute force and compared with the planner."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import InstanceType
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan, PlannedMachine
from tests.support.cluster.kubernetes_rules import overrun, total
from tests.support.planning.builders import (
    ZONES,
    make_catalogue,
    make_node,
    make_pod,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
    make_type,
)
from tests.support.planning.plan_checker import check_plan, violations
from tests.support.planning.snapshots import plan_for

WEB: dict[str, Any] = {"labels": {"app": "web"}}
SIZES = (("500m", "1Gi"), ("1500m", "1Gi"), ("2", "6Gi"), ("3", "2Gi"), ("7", "20Gi"))
ZONE_APART = (make_term(keys.ZONE),)
RULES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"node_selector": {keys.ZONE: ZONES[0]}},
    {**WEB, "spread": (make_spread(keys.ZONE),)},
    {**WEB, "anti_affinity": (make_term(keys.HOSTNAME),)},
    {**WEB, "anti_affinity": ZONE_APART},
    {**WEB, "affinity": (make_term(keys.ZONE),)},
)
"""Pods without a rule carry no label, so no rule counts them on a machine whose zone is still open."""
types = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([2, 4, 8]), st.integers(70, 130)),
    min_size=1,
    max_size=4,
).map(
    lambda rows: tuple(
        make_type(f"t{i}.x", cpu, cpu * gib, (cpu * 30_000 + cpu * gib * 3000) * percent // 100)
        for i, (cpu, gib, percent) in enumerate(rows)
    )
)


def pods_of(rows: list[tuple[tuple[str, str], dict[str, Any]]]) -> tuple[Pod, ...]:
    """One pod per row."""
    return tuple(
        make_pod(f"p{i}", size[0], size[1], **rules) for i, (size, rules) in enumerate(rows)
    )


plain_pods = st.lists(st.tuples(st.sampled_from(SIZES), st.just(RULES[0])), min_size=1, max_size=6)
decided_pods = st.lists(
    st.tuples(
        st.sampled_from(SIZES),
        st.sampled_from([rules for rules in RULES if rules.get("anti_affinity") != ZONE_APART]),
    ),
    min_size=1,
    max_size=6,
)
"""Without anti-affinity over zones: it is conservative on purpose. A machine that could be anywhere when such a pod
came blocks every zone for the rest of the plan, also when it is pinned later (SCH-81)."""
ruled_pods = st.lists(
    st.tuples(st.sampled_from(SIZES), st.sampled_from(RULES)), min_size=1, max_size=6
)


def partitions(pods: tuple[Pod, ...]) -> Iterator[list[list[Pod]]]:
    """Every way to divide the pods among machines: 203 for six pods."""
    if not pods:
        yield []
        return
    first, rest = pods[0], pods[1:]
    for parts in partitions(rest):
        yield [[first], *parts]
        for i, part in enumerate(parts):
            yield [*parts[:i], [first, *part], *parts[i + 1 :]]


def cheapest(pods: list[Pod], shapes: tuple[InstanceType, ...]) -> int | None:
    """The price of the cheapest single machine for these pods; None when none holds them."""
    wanted = total(p.requests for p in pods)
    prices = [
        min(o.price_micro_usd_per_hour for o in shape.offerings)
        for shape in shapes
        if not overrun(wanted, shape.allocatable())
    ]
    return min(prices, default=None)


def optimum(pods: tuple[Pod, ...], shapes: tuple[InstanceType, ...]) -> int:
    """The least that any machines for all these pods cost. Pods must have no rules."""
    costs = []
    for parts in partitions(pods):
        prices = [cheapest(part, shapes) for part in parts]
        if None not in prices:
            costs.append(sum(price for price in prices if price is not None))
    return min(costs)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plain_pods, types)
def test_bound_optimum_and_cost_come_in_this_order(
    rows: list[tuple[tuple[str, str], dict[str, Any]]], shapes: tuple[InstanceType, ...]
) -> None:
    snapshot = make_snapshot(*pods_of(rows), catalogue=make_catalogue(shapes))
    fewest = plan_for(snapshot)
    lowest = plan_for(snapshot, packing_policy="LowestCost", effort=50)
    placed = tuple(p for p in snapshot.pods if p.uid not in lowest.unschedulable)
    assert set(lowest.unschedulable) == {
        p.uid for p in snapshot.pods if cheapest([p], shapes) is None
    }
    best = optimum(placed, shapes)
    assert (lowest.lower_bound_micro_usd_per_hour or 0) <= best
    assert best <= lowest.cost_micro_usd_per_hour <= fewest.cost_micro_usd_per_hour


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ruled_pods, types)
def test_rules_never_make_the_cheap_plan_the_dear_one(
    rows: list[tuple[tuple[str, str], dict[str, Any]]], shapes: tuple[InstanceType, ...]
) -> None:
    snapshot = make_snapshot(*pods_of(rows), catalogue=make_catalogue(shapes))
    fewest = plan_for(snapshot)
    lowest = plan_for(snapshot, packing_policy="LowestCost", effort=50)
    check_plan(lowest, snapshot)
    assert len(lowest.unschedulable) <= len(fewest.unschedulable)
    if set(lowest.unschedulable) == set(fewest.unschedulable):
        assert lowest.cost_micro_usd_per_hour <= fewest.cost_micro_usd_per_hour


def with_one_more(plan: Plan, snapshot: Snapshot, pod: Pod) -> Iterator[Plan]:
    """Every plan that leaves the others where they are and adds this pod to a node, a machine or a new machine."""
    left = {uid: reason for uid, reason in plan.unschedulable.items() if uid != pod.uid}
    base = replace(plan, unschedulable=left)
    for node in snapshot.nodes:
        there = (*plan.existing.get(node.name, ()), pod.uid)
        yield replace(base, existing={**plan.existing, node.name: there})
    template = plan_for(replace(snapshot, pods=(make_pod("alone", "1m", "1Mi"),), nodes=()))
    fresh = template.machines[0] if template.machines else None
    homes = [*plan.machines, *([replace(fresh, pods=())] if fresh else [])]
    choices = product(enumerate(homes), snapshot.catalogue.types, ZONES)
    for (at, machine), shape, zone in choices:
        grown = _as(replace(machine, pods=(*machine.pods, pod.uid)), shape, zone)
        machines = (*homes[:at], grown, *homes[at + 1 : len(plan.machines)])
        cost = sum(m.offering.price_micro_usd_per_hour for m in machines)
        yield replace(base, machines=machines, cost_micro_usd_per_hour=cost)


def _as(machine: PlannedMachine, shape: InstanceType, zone: str) -> PlannedMachine:
    """The machine as exactly this type in exactly this zone."""
    fixed = {keys.INSTANCE_TYPE: shape.name, keys.ZONE: zone}
    others = tuple(e for e in machine.requirements if e.key not in fixed)
    asked = tuple(Expression(key, "In", (value,)) for key, value in fixed.items())
    (offering,) = (o for o in shape.offerings if o.zone == zone)
    return replace(
        machine,
        requirements=(*others, *asked),
        instance_types=(shape.name,),
        instance_type=shape.name,
        offering=offering,
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(decided_pods, types, st.booleans(), st.sampled_from([{}, {"nodes": 1}, {"nodes": 2}]))
def test_a_pod_left_out_has_no_place_beside_the_others(
    rows: list[tuple[tuple[str, str], dict[str, Any]]],
    shapes: tuple[InstanceType, ...],
    has_node: bool,
    limits: dict[str, int],
) -> None:
    nodes = (make_node(cpu="2"),) if has_node else ()
    snapshot = make_snapshot(*pods_of(rows), catalogue=make_catalogue(shapes), nodes=nodes)
    snapshot = replace(snapshot, pools=(make_pool(limits=limits),))
    plan = plan_for(snapshot)
    for uid in plan.unschedulable:
        (pod,) = (p for p in snapshot.pods if p.uid == uid)
        if pod.spread:
            continue  # whether it has a place depends on who came before it, and large pods come first (SCH-30)
        for other in with_one_more(plan, snapshot, pod):
            assert violations(other, snapshot) != [], other
