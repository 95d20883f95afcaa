"""For any input, a plan of LowestCost is valid, never costs more than FewestNodes, and its bound holds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Taint, Toleration
from shared.domain.workloads.pods import Pod
from tests.support.aws.markets import ANY_CAPACITY, lowest, market
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    amounts,
    make_daemon_set,
    make_node,
    make_pod,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
)
from tests.support.planning.snapshots import check_plan, plan_for

RULES: tuple[dict[str, object], ...] = (
    {},
    {"spread": (make_spread(keys.ZONE),)},
    {"spread": (make_spread(keys.HOSTNAME, 2),)},
    {"spread": (make_spread(keys.ZONE, 1, hard=False),)},
    {"anti_affinity": (make_term(keys.HOSTNAME),)},
    {"anti_affinity": (make_term(keys.ZONE, weight=1),)},
    {"affinity": (make_term(keys.ZONE),)},
    {"host_ports": (("TCP", "", 80),)},
    {"node_selector": {keys.ZONE: ZONES[1]}},
    {"node_selector": {"team": "red"}, "tolerations": (Toleration("dedicated", "Exists"),)},
    {"node_selector": {keys.CAPACITY_TYPE: keys.ON_DEMAND}},
)


@st.composite
def workloads(draw: st.DrawFn) -> list[Pod]:
    shapes = draw(st.lists(st.tuples(
        st.integers(1, 12),
        st.sampled_from(["100m", "900m", "1500m", "3", "20"]),
        st.sampled_from(["64Mi", "2Gi", "9Gi"]),
        st.sampled_from(RULES),
    ), min_size=1, max_size=5))  # fmt: skip
    return [
        make_pod(f"{i}-{j:02d}", cpu, memory, **{"labels": {"app": f"app-{i % 2}"}, **rules})
        for i, (count, cpu, memory, rules) in enumerate(shapes)
        for j in range(count)
    ]


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 3)  # each makes two plans of up to 60 pods
@given(workloads(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_plan_is_sound_never_dearer_and_never_below_its_bound(
    pods: list[Pod], spot: bool, limited: bool, has_nodes: bool, capped: bool
) -> None:
    requirements = ANY_CAPACITY if spot else DEFAULT_REQUIREMENTS
    limits = amounts(cpu="60") if limited else {}
    taint = Taint("dedicated", "NoSchedule", "x")
    snapshot = make_snapshot(
        *pods,
        pools=(
            make_pool("red", labels={"team": "red"}, taints=(taint,), weight=3),
            make_pool("plain", requirements=requirements, limits=limits),
        ),
        nodes=(make_node(),) if has_nodes else (),
        daemon_sets=(make_daemon_set(),),
        catalogue=market(capacity_types=(keys.ON_DEMAND, keys.SPOT)),
    )
    fewest, plan = (
        plan_for(snapshot),
        lowest(snapshot, effort=10, most_node_cpu_milli=16_000 if capped else None),
    )
    check_plan(plan, snapshot)
    assert plan.unschedulable.keys() <= fewest.unschedulable.keys()
    assert capped or plan.cost_micro_usd_per_hour <= fewest.cost_micro_usd_per_hour
    for found in (fewest, plan):
        assert found.lower_bound_micro_usd_per_hour is not None
        assert found.lower_bound_micro_usd_per_hour <= found.cost_micro_usd_per_hour
    again = lowest(
        replace(snapshot, pods=tuple(reversed(pods))),
        effort=10,
        most_node_cpu_milli=16_000 if capped else None,
    )
    assert msgspec.json.encode(plan) == msgspec.json.encode(again)
