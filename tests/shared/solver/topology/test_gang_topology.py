"""A gang within one zone, or one value of another label (SCH-115)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import (
    ZONES,
    amounts,
    make_bound_pod,
    make_catalogue,
    make_node,
    make_node_class,
    make_pod,
    make_pool,
    make_snapshot,
    make_spread,
    make_type,
)

A, B, C = ZONES


def planned(snapshot: Snapshot, reschedule: frozenset[str] = frozenset(), **chosen: Any) -> Plan:
    return solve(snapshot, now=0.0, settings=SolverSettings(**chosen), reschedule=reschedule)


def gang(name: str, count: int, cpu: str = "3", key: str = keys.ZONE, **fields: Any) -> list[Pod]:
    told = {"gang": name, "gang_topology": key, **fields}
    return [make_pod(f"{name}-{number}", cpu=cpu, **told) for number in range(count)]


def in_zone(name: str, zone: str, **changes: Any) -> Any:
    return make_node(name, labels={keys.ZONE: zone}, **changes)


def zones(plan: Plan, prefix: str = "") -> set[str]:
    """Those in which new machines for pods of this name may be."""
    return {
        zone
        for machine in plan.machines
        for one in machine.requirements
        if one.key == keys.ZONE and any(uid.startswith(f"uid-{prefix}") for uid in machine.pods)
        for zone in one.values
    }


def placed(plan: Plan) -> set[str]:
    found = {uid for machine in plan.machines for uid in machine.pods}
    return found.union(*plan.existing.values())


def dearer_in(*dear: str, cpu: int = 4) -> Any:
    """One type, at twice the price in these zones."""
    kind = make_type("m5.xlarge", cpu, 16, 100_000)
    offerings = tuple(
        replace(one, price_micro_usd_per_hour=200_000) if one.zone in dear else one
        for one in kind.offerings
    )
    return make_catalogue((replace(kind, offerings=offerings),))


def test_all_machines_of_the_gang_are_in_one_zone_the_cheapest() -> None:
    plan = planned(make_snapshot(*gang("train", 4), catalogue=dearer_in(A, C)))
    assert len(plan.machines) == 4
    assert zones(plan) == {B}


@pytest.mark.parametrize(("full", "machines"), [((), 3), ((A,), 3), ((A, B), 0)])
def test_spread_over_zones_that_have_nodes_is_not_overridden(
    full: tuple[str, ...], machines: int
) -> None:
    """kube-scheduler knows nothing of the gang's zone: with nodes in two zones it would bind one of the three pods."""
    nodes = tuple(in_zone(f"full-{zone}", zone, cpu="1") for zone in full)
    pods = gang("train", 3, labels={"app": "web"}, spread=(make_spread(keys.ZONE),))
    plan = planned(make_snapshot(*pods, nodes=nodes))
    assert sum(len(one.pods) for one in plan.machines) == machines


def test_a_zone_that_has_no_room_for_all_is_not_taken() -> None:
    """One of three pods would fit in the zone of the small node."""
    nodes = (in_zone("small", A), in_zone("large", B, cpu="16", memory="64Gi"))
    plan = planned(make_snapshot(*gang("train", 3), nodes=nodes, pools=()))
    assert plan.existing == {"large": ("uid-train-0", "uid-train-1", "uid-train-2")}


def test_no_zone_for_all_means_no_machine_and_says_why() -> None:
    nodes = (in_zone("n1", A), in_zone("n2", B))
    plan = planned(make_snapshot(*gang("train", 2), nodes=nodes, pools=()))
    assert placed(plan) == set()
    (text,) = set(plan.unschedulable.values())
    assert text.startswith(
        'gang "default/train": none of the 2 values of "topology.kubernetes.io/zone" has room for all'
    )


def test_a_preferred_topology_is_given_up_rather_than_the_gang() -> None:
    nodes = (in_zone("n1", A), in_zone("n2", B))
    pods = gang("train", 2, gang_topology_preferred=True)
    assert len(placed(planned(make_snapshot(*pods, nodes=nodes, pools=())))) == 2
    together = (*nodes, in_zone("n3", C, cpu="8", memory="32Gi"))
    plan = planned(make_snapshot(*pods, nodes=together, pools=()))
    assert [*plan.existing] == ["n3"]


def test_a_pod_that_comes_back_goes_to_the_zone_of_the_others() -> None:
    """Also when the other zones are cheaper, and when consolidation moves it."""
    told = {"gang": "train", "gang_topology": keys.ZONE}
    running = [make_bound_pod(f"train-{n}", "n1", cpu="1", **told) for n in range(3)]
    again = make_pod("train-new", cpu="3", **told)
    nodes = (in_zone("n1", A), in_zone("n2", A))
    plan = planned(make_snapshot(*running, again, nodes=nodes[:1], catalogue=dearer_in(A)))
    assert zones(plan) == {A}
    moved = replace(running[0], node_name="n2")
    plan = planned(
        make_snapshot(*running[1:], moved, nodes=nodes[:1], catalogue=dearer_in(A)),
        reschedule=frozenset({moved.uid}),
    )
    assert placed(plan) == {moved.uid}
    assert zones(plan) <= {A}


def test_of_two_gangs_that_want_the_same_zone_one_takes_the_next() -> None:
    """Both would take the node's zone, and there is room for one."""
    nodes = (in_zone("n1", A, cpu="8", memory="32Gi"), in_zone("n2", B, cpu="8", memory="32Gi"))
    plan = planned(make_snapshot(*gang("a", 2), *gang("b", 2), nodes=nodes, pools=()))
    homes = {uid.split("-")[1]: name for name, uids in plan.existing.items() for uid in uids}
    assert len(placed(plan)) == 4
    assert set(homes.values()) == {"n1", "n2"}


def test_one_placement_group_of_several_pools() -> None:
    """The dearer group is that of the only pool with large enough limits."""
    classes = [make_node_class(f"c{n}", placement_group_id=f"pg-{n}") for n in (1, 2)]
    pools = (
        make_pool("one", node_class="c1", limits=amounts(cpu="4")),
        make_pool("two", node_class="c2"),
    )
    pods = gang("train", 2, key=keys.PLACEMENT_GROUP)
    plan = planned(
        make_snapshot(*pods, pools=pools, node_classes=tuple(classes), catalogue=dearer_in())
    )
    assert {machine.pool for machine in plan.machines} == {"two"}
    assert plan.unschedulable == {}


def test_a_label_without_known_values_is_told() -> None:
    plan = planned(make_snapshot(*gang("train", 2, key="example.com/rack")))
    (text,) = set(plan.unschedulable.values())
    assert 'no pool and no node has a value of the label "example.com/rack"' in text


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    cpus=st.lists(st.sampled_from(["500m", "1", "3", "7"]), min_size=3, max_size=3),
    limit=st.integers(1, 24),
    policy=st.sampled_from(["FewestNodes", "LowestCost"]),
)
@settings(max_examples=25, deadline=None)
def test_whatever_the_limits_a_gang_is_whole_and_in_one_zone(
    sizes: list[int], cpus: list[str], limit: int, policy: str
) -> None:
    pods = [pod for i, size in enumerate(sizes) for pod in gang(f"g{i}", size, cpus[i])]
    pods += [make_pod(f"single-{number}") for number in range(2)]
    nodes = tuple(in_zone(f"n-{zone}", zone, cpu="2") for zone in ZONES)
    pools = (make_pool(limits=amounts(cpu=str(limit))),)
    plan = planned(make_snapshot(*pods, nodes=nodes, pools=pools), packing_policy=policy)
    there = placed(plan)
    assert there | set(plan.unschedulable) == {pod.uid for pod in pods}
    for i, size in enumerate(sizes):
        mine = {f"uid-g{i}-{number}" for number in range(size)}
        assert len(mine & there) in (0, size)
        on_nodes = {name[2:] for name, uids in plan.existing.items() if mine & {*uids}}
        assert len(on_nodes | zones(plan, f"g{i}-")) <= 1
