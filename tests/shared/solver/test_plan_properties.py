"""Whatever the input, a plan keeps its promises; an independent checker says so."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Taint, Toleration
from shared.domain.pods import Pod
from tests.support.builders import (
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
from tests.support.planning import check_plan, plan_for

TAINT = Taint("dedicated", "NoSchedule", "x")
RULES: tuple[dict[str, object], ...] = (
    {},
    {"spread": (make_spread(keys.ZONE),)},
    {"spread": (make_spread(keys.HOSTNAME, 2, hard=False),)},
    {"anti_affinity": (make_term(keys.HOSTNAME),)},
    {"affinity": (make_term(keys.ZONE),)},
    {"host_ports": (("TCP", "", 80),)},
)


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    shapes = draw(st.lists(st.tuples(
        st.integers(1, 12),
        st.sampled_from(["100m", "900m", "3", "20", "900"]),
        st.sampled_from(["64Mi", "2Gi", "30Gi"]),
        st.sampled_from([{}, {keys.ZONE: ZONES[1]}, {"team": "red"}, {"team": "blue"}]),
        st.booleans(),
        st.sampled_from(RULES),
    ), max_size=6))  # fmt: skip
    found = []
    for i, (count, cpu, memory, selector, tolerates, rules) in enumerate(shapes):
        for j in range(count):
            pod = make_pod(f"{i}-{j}", cpu, memory, node_selector=selector, labels={"app": "web"})
            tolerations = (Toleration("dedicated", "Exists"),) if tolerates else ()
            found.append(replace(pod, tolerations=tolerations, **rules))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pods(), st.booleans(), st.integers(0, 3), st.booleans())
def test_every_plan_is_sound(found: list[Pod], limited: bool, nodes: int, daemons: bool) -> None:
    pools = (
        make_pool("red", labels={"team": "red"}, taints=(TAINT,), weight=3),
        make_pool("plain", limits=amounts(cpu="200") if limited else {}),
    )
    snapshot = make_snapshot(
        *found,
        make_bound_pod("busy", "node-0", cpu="3"),
        pools=pools,
        nodes=tuple(make_node(f"node-{i}") for i in range(nodes)),
        machines=(make_machine(),) if nodes == 2 else (),
        daemon_sets=(make_daemon_set(),) if daemons else (),
    )
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    placed = sum(len(m.pods) for m in plan.machines) + sum(map(len, plan.existing.values()))
    assert placed + len(plan.unschedulable) == len(found)
    assert plan == plan_for(replace(snapshot, pods=tuple(reversed(snapshot.pods))))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([100, 350, 900, 1700, 2600, 7000])),
        max_size=6,
    )
)
def test_a_batch_gives_the_same_machines_as_pod_by_pod(runs: list[tuple[int, int]]) -> None:
    """Runs of equal pods are a short cut only: as many classes as pods place the same (SCH-32)."""
    found = [
        make_pod(f"{i}-{j:02d}", cpu=f"{cpu}m")
        for i, (count, cpu) in enumerate(runs)
        for j in range(count)
    ]
    distinct = [replace(p, tolerations=(Toleration(p.name, "Exists"),)) for p in found]
    small = {
        "catalogue": make_catalogue((make_type("m5.a", 4, 16), make_type("m5.b", 8, 16))),
        "nodes": (make_node("node-0", cpu="3"), make_node("node-1", cpu="2")),
    }
    assert plan_for(make_snapshot(*found, **small)) == plan_for(make_snapshot(*distinct, **small))
