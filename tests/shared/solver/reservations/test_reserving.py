"""Each place in a capacity reservation is used once (SCH-105, IT-07)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.reservations import (
    ID_LABEL,
    INTERRUPTIBLE_LABEL,
    TYPE_LABEL,
    Reservation,
    with_reserved,
)
from shared.domain.machines.machine import LAUNCHED, Condition, Machine
from shared.domain.pools.generations import V1
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.reservations.reserving import NOT_RESERVED
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import (
    ZONES,
    make_catalogue,
    make_machine,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_type,
)

CLASS = "EC2NodeClass/default"
COUNTED = 1000.0
SMALL, LARGE = make_type("m5.large", 2, 8, 96_000), make_type("m5.xlarge", 4, 16, 192_000)


def reservation(name: str = "cr-1", kind: str = "m5.large", left: int = 1, **changes: Any) -> Reservation:  # fmt: skip
    fields: dict[str, Any] = {"zone": ZONES[0], "counted_at": COUNTED, "node_classes": (CLASS,)}
    return Reservation(name, kind, left=left, **{**fields, **changes})


def cluster(
    *reservations: Reservation, pods: int = 1, allowed: tuple[str, ...] = (), **changes: Any
) -> Snapshot:
    """Pods that fill an m5.large each, and a pool with these capacity types."""
    asked = Expression(keys.CAPACITY_TYPE, "In", allowed or (keys.RESERVED, keys.ON_DEMAND))
    fields: dict[str, Any] = {
        "pools": (make_pool(generation_api=V1, requirements=(asked,)),),
        "node_classes": (make_node_class(generation_api=V1),),
        "catalogue": with_reserved(make_catalogue((SMALL, LARGE)), reservations),
    }
    return make_snapshot(*make_pods(pods, cpu="1500m"), **{**fields, **changes})


def planned(snapshot: Snapshot, policy: str = "FewestNodes") -> Plan:
    return solve(snapshot, now=COUNTED, settings=SolverSettings(packing_policy=policy))


def reserved(plan: Plan) -> list[PlannedMachine]:
    return [one for one in plan.machines if one.offering.capacity_type == keys.RESERVED]


def values(machine: PlannedMachine, key: str) -> tuple[str, ...]:
    return next(one.values for one in machine.requirements if one.key == key)


def test_a_machine_with_a_place_is_narrowed_to_it() -> None:
    """LCH-45, NC-08: type, zone, reservation and its labels; it costs nothing more (IT-07)."""
    (machine,) = reserved(planned(cluster(reservation())))
    assert machine.instance_types == ("m5.large",)
    assert machine.offering.price_micro_usd_per_hour == 0
    assert values(machine, keys.CAPACITY_TYPE) == (keys.RESERVED,)
    assert values(machine, keys.ZONE) == (ZONES[0],)
    assert values(machine, ID_LABEL) == ("cr-1",)
    assert machine.labels[keys.CAPACITY_TYPE] == keys.RESERVED
    assert (machine.labels[ID_LABEL], machine.labels[TYPE_LABEL]) == ("cr-1", "default")
    assert [one.key for one in machine.requirements] == sorted(o.key for o in machine.requirements)


@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])
@pytest.mark.parametrize("left", [0, 1, 2, 5])
def test_no_more_machines_than_places(policy: str, left: int) -> None:
    """The other machines are on-demand, as without a reservation (SCH-105)."""
    snapshot = cluster(reservation(left=left, kind="m5.xlarge"), pods=6)
    plan = planned(snapshot, policy)
    assert plan.unschedulable == {}
    assert len(reserved(plan)) == min(left, len(plan.machines))
    for machine in plan.machines:
        if machine not in reserved(plan):
            assert values(machine, keys.CAPACITY_TYPE) == (keys.ON_DEMAND,)
            assert machine.offering.price_micro_usd_per_hour > 0
    if left >= len(plan.machines):
        assert plan.cost_micro_usd_per_hour == 0
    assert (plan.lower_bound_micro_usd_per_hour is None) == (left > 0)


def test_what_may_only_be_reserved_waits_when_nothing_is_left() -> None:
    """The verdict has Karpenter's text (SCH-105)."""
    plan = planned(cluster(reservation(), pods=3, allowed=(keys.RESERVED,)))
    assert len(plan.machines) == 1
    assert set(plan.unschedulable.values()) == {NOT_RESERVED}
    assert len(plan.unschedulable) + sum(len(m.pods) for m in plan.machines) == 3


def test_the_cheapest_type_is_used_first() -> None:
    """IT-07: reserved offerings keep the order of their on-demand prices."""
    both = (reservation("cr-1", "m5.xlarge"), reservation("cr-2", "m5.large"))
    (machine,) = reserved(planned(cluster(*both)))
    assert values(machine, ID_LABEL) == ("cr-2",)


@pytest.mark.parametrize(
    "change",
    [
        {"node_classes": ("EC2NodeClass/other",)},
        {"zone": "us-west-2z"},
        {"instance_type": "c5.large"},
        {"left": 0},
    ],
)
def test_a_place_that_is_not_the_machines_is_left(change: dict[str, Any]) -> None:
    """EC-05: of another class, zone or type."""
    plan = planned(cluster(replace(reservation(), **change)))
    assert reserved(plan) == []
    (machine,) = plan.machines
    assert values(machine, keys.CAPACITY_TYPE) == (keys.ON_DEMAND,)


def test_a_reservation_that_ec2_said_is_full_is_left() -> None:
    """Unavailable reservations are not used (LCH-61)."""
    full = frozenset({(keys.RESERVED, "m5.large", ZONES[0])})
    assert reserved(planned(cluster(reservation(), unavailable=full))) == []
    assert len(planned(cluster(reservation(), unavailable=full)).machines) == 1


def test_a_pool_without_reserved_capacity_takes_no_place() -> None:
    """LCH-47: choice of the capacity type."""
    assert reserved(planned(cluster(reservation(), allowed=(keys.ON_DEMAND, keys.SPOT)))) == []


def test_a_pod_may_ask_for_a_reservation_by_its_id() -> None:
    """KEY-05: the id is a label that the cloud fills in."""
    wanted = cluster(reservation("cr-1"), reservation("cr-2"), pods=0)
    pod = make_pod(node_selector={ID_LABEL: "cr-2"})
    (machine,) = reserved(planned(replace(wanted, pods=(pod,))))
    assert machine.labels[ID_LABEL] == "cr-2"
    other = make_pod(node_selector={ID_LABEL: "cr-3"})
    assert planned(replace(wanted, pods=(other,))).machines == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 0),
        ({"provider_id": "aws:///z/i-1"}, 0),
        ({"provider_id": "aws:///z/i-1", "conditions": {LAUNCHED: Condition("True", since=COUNTED + 5)}}, 0),
        ({"provider_id": "aws:///z/i-1", "conditions": {LAUNCHED: Condition("True", since=COUNTED - 300)}}, 1),
    ],
)  # fmt: skip
def test_machines_that_ec2_cannot_have_counted_hold_their_place(
    changes: dict[str, Any], expected: int
) -> None:
    """Two plans within a minute use the same count of EC2 (SCH-105)."""
    held: Machine = make_machine(
        "held", generation_api=V1, labels={ID_LABEL: "cr-1"}, requirements=(), **changes
    )
    plan = planned(cluster(reservation(), machines=(held,)))
    assert len(reserved(plan)) == expected


def test_lowest_cost_fills_what_is_paid_for_before_it_buys() -> None:
    """Without reservations the packing would use small machines and leave a large place nearly empty (SCH-105)."""
    big = make_type("m5.8xlarge", 32, 128, 1_536_000)
    catalogue = with_reserved(make_catalogue((SMALL, LARGE, big)), [reservation(kind="m5.8xlarge")])
    plan = planned(cluster(pods=20, catalogue=catalogue), "LowestCost")
    assert [one.instance_type for one in plan.machines] == ["m5.8xlarge"]
    assert plan.cost_micro_usd_per_hour == 0
    assert plan.unschedulable == {}


def test_lowest_cost_buys_what_the_places_do_not_hold() -> None:
    """Of 30 pods of 1.5 cores, 21 go to the reserved machine and the others in pairs (SCH-105)."""
    big = make_type("m5.8xlarge", 32, 128, 1_536_000)
    catalogue = with_reserved(make_catalogue((SMALL, LARGE, big)), [reservation(kind="m5.8xlarge")])
    plan = planned(cluster(pods=30, catalogue=catalogue), "LowestCost")
    (free,) = reserved(plan)
    assert free.instance_type == "m5.8xlarge"
    left = 30 - len(free.pods)
    assert 0 < left <= 10
    assert plan.cost_micro_usd_per_hour <= left * 96_000


def test_lowest_cost_takes_the_smallest_place_that_holds_everything() -> None:
    """Both places are free of charge, and the large one stays free for larger pods (IT-07)."""
    both = (reservation("cr-big", "m5.xlarge"), reservation("cr-small", "m5.large"))
    (machine,) = planned(cluster(*both), "LowestCost").machines
    assert machine.labels[ID_LABEL] == "cr-small"


@pytest.mark.parametrize(
    "changes",
    [
        {"node_classes": ("EC2NodeClass/other",)},
        {"zone": "us-west-2z"},
        {"left": 0},
    ],
)
def test_lowest_cost_leaves_places_that_are_not_its_own(changes: dict[str, Any]) -> None:
    """EC-05: capacity reservation selector terms."""
    plan = planned(cluster(replace(reservation(), **changes), pods=6), "LowestCost")
    assert reserved(plan) == []
    assert plan.unschedulable == {}


def test_a_pool_s_limits_hold_for_reserved_machines_too() -> None:
    """SCH-100, with LowestCost."""
    asked = Expression(keys.CAPACITY_TYPE, "In", (keys.RESERVED, keys.ON_DEMAND))
    pool = make_pool(generation_api=V1, requirements=(asked,), limits={"cpu": 4000})
    plan = planned(cluster(reservation(left=5), pods=6, pools=(pool,)), "LowestCost")
    assert sum(len(one.pods) for one in plan.machines) <= 2
    assert len(plan.unschedulable) >= 4


POLICIES = pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])


def choosy(*reservations: Reservation, pods: int, allowed: tuple[str, ...] = ()) -> Snapshot:
    """A pool whose machines must have two types to choose from (minValues)."""
    asked = Expression(keys.CAPACITY_TYPE, "In", allowed or (keys.RESERVED, keys.ON_DEMAND))
    types = Expression(keys.INSTANCE_TYPE, "In", ("m5.large", "m5.xlarge"), 2)
    pool = make_pool(generation_api=V1, requirements=(asked, types))
    return cluster(*reservations, pods=pods, pools=(pool,))


@POLICIES
def test_a_machine_that_wants_a_choice_holds_a_place_of_each_reservation(policy: str) -> None:
    """EC2 chooses among the places; two machines do not share one (SCH-12, SCH-105)."""
    both = (reservation("cr-1", "m5.large"), reservation("cr-2", "m5.xlarge", zone=ZONES[1]))
    plan = planned(choosy(*both, pods=1), policy)
    (machine,) = reserved(plan)
    assert machine.instance_types == ("m5.large", "m5.xlarge")
    assert values(machine, ID_LABEL) == ("cr-1", "cr-2")
    assert values(machine, keys.ZONE) == ZONES[:2]
    assert values(machine, keys.CAPACITY_TYPE) == (keys.RESERVED,)
    assert values(machine, keys.INSTANCE_TYPE) == ("m5.large", "m5.xlarge")
    assert ID_LABEL not in machine.labels
    assert plan.cost_micro_usd_per_hour == 0
    two = planned(choosy(*both, pods=4), policy)
    assert len(two.machines) > 1
    assert len(reserved(two)) == 1


@POLICIES
@pytest.mark.parametrize("allowed", [(), (keys.RESERVED,)], ids=["or on demand", "only"])
def test_one_kind_of_reservation_is_no_choice(policy: str, allowed: tuple[str, ...]) -> None:
    """The machine is on-demand, or its pods wait (SCH-12)."""
    plan = planned(choosy(reservation(), pods=1, allowed=allowed), policy)
    assert reserved(plan) == []
    assert len(plan.machines) == (0 if allowed else 1)
    assert bool(plan.unschedulable) == bool(allowed)


def test_a_machine_that_may_get_into_either_holds_a_place_of_both() -> None:
    """All places count until EC2 has chosen one (SCH-105)."""
    either = Expression(ID_LABEL, "In", ("cr-1", "cr-2"))
    held = make_machine("held", generation_api=V1, requirements=(either,))
    both = (reservation("cr-1"), reservation("cr-2"))
    assert reserved(planned(cluster(*both, machines=(held,)))) == []


def test_places_that_are_paid_for_are_filled_before_anything_is_bought() -> None:
    """SCH-105, as Karpenter: three pods would fit one machine on demand, but two places are free."""
    big = make_type("m5.8xlarge", 32, 128, 1_536_000)
    both = (reservation("cr-1", "m5.large"), reservation("cr-2", "m5.large", zone=ZONES[1]))
    catalogue = with_reserved(make_catalogue((SMALL, LARGE, big)), both)
    plan = planned(cluster(pods=3, catalogue=catalogue))
    assert sorted(one.labels[ID_LABEL] for one in reserved(plan)) == ["cr-1", "cr-2"]
    assert len(plan.machines) == 3
    assert plan.unschedulable == {}


def test_a_machine_takes_no_pod_that_would_cost_it_its_place() -> None:
    """SCH-105: the second pod, for which another zone's place is free, gets that one."""
    both = (reservation("cr-1", "m5.xlarge"), reservation("cr-2", "m5.xlarge", zone=ZONES[1]))
    pods = [make_pod(f"p-{z}", cpu="100m", node_selector={keys.ZONE: z}) for z in ZONES[:2]]
    plan = planned(replace(cluster(*both), pods=tuple(pods)))
    assert sorted(one.offering.zone for one in reserved(plan)) == sorted(ZONES[:2])


def test_a_machine_moves_to_another_reservation_when_a_pod_needs_its_own() -> None:
    """SCH-105: the first pod may be in either, the second only in the one that the first has got."""
    both = (reservation("cr-1", "m5.large"), reservation("cr-2", "m5.xlarge"))
    bound = make_pod("later", cpu="1400m", node_selector={ID_LABEL: "cr-1"})
    pods = (make_pod("first", cpu="1500m"), bound)
    plan = planned(replace(cluster(*both), pods=pods))
    assert {one.labels[ID_LABEL]: len(one.pods) for one in plan.machines} == {"cr-1": 1, "cr-2": 1}
    assert plan.unschedulable == {}


@POLICIES
@pytest.mark.parametrize("interruptible", [False, True])
def test_a_pod_may_refuse_capacity_that_its_owner_takes_back(
    policy: str, interruptible: bool
) -> None:
    """KEY-05: the label is that of the reservation, though the type has both kinds."""
    both = (reservation("cr-kept"), reservation("cr-lent", zone=ZONES[1], interruptible=True))
    pod = make_pod(node_selector={INTERRUPTIBLE_LABEL: str(interruptible).lower()})
    (machine,) = reserved(planned(replace(cluster(*both), pods=(pod,)), policy))
    assert machine.labels[ID_LABEL] == ("cr-lent" if interruptible else "cr-kept")


@pytest.mark.slow
@POLICIES
@settings(max_examples=settings().max_examples // 2)
@given(
    places=st.lists(
        st.tuples(st.sampled_from(["m5.large", "m5.xlarge"]), st.sampled_from(ZONES), st.integers(1, 3)),
        max_size=4,
    ),
    sizes=st.lists(st.sampled_from([300, 1000, 1500, 3000]), min_size=1, max_size=8),
)  # fmt: skip
def test_nothing_is_bought_that_a_free_place_would_hold(
    policy: str, places: list[tuple[str, str, int]], sizes: list[int]
) -> None:
    """SCH-105, IT-07: each machine that is bought has a pod that fits no place which stays free, and no reservation
    gives more than it has."""
    given_out = [reservation(f"cr-{i}", k, zone=z, left=n) for i, (k, z, n) in enumerate(places)]
    pods = tuple(make_pod(f"p-{i}", cpu=f"{size}m") for i, size in enumerate(sizes))
    plan = planned(replace(cluster(*given_out), pods=pods), policy)
    assert plan.unschedulable == {}
    used = Counter(one.labels[ID_LABEL] for one in reserved(plan))
    room = {"m5.large": SMALL.allocatable()["cpu"], "m5.xlarge": LARGE.allocatable()["cpu"]}
    cpu = dict(zip((pod.uid for pod in pods), sizes, strict=True))
    bought = [m for m in plan.machines if m not in reserved(plan)]
    largest = [max(cpu[uid] for uid in machine.pods) for machine in bought]
    for one in given_out:
        assert used[one.id] <= one.left
        if used[one.id] < one.left:
            assert all(size > room[one.instance_type] for size in largest)


@pytest.mark.slow
@POLICIES
@settings(max_examples=settings().max_examples // 2)
@given(
    places=st.lists(
        st.tuples(st.sampled_from(["m5.large", "m5.xlarge"]), st.sampled_from(ZONES), st.integers(1, 2)),
        min_size=1,
        max_size=5,
    ),
    pods=st.lists(
        st.tuples(st.sampled_from([300, 1000, 1500, 3000]), st.sampled_from(["", *ZONES])),
        min_size=1,
        max_size=8,
    ),
    is_choosy=st.booleans(),
)  # fmt: skip
def test_who_moves_keeps_a_place(
    policy: str,
    places: list[tuple[str, str, int]],
    pods: list[tuple[int, str]],
    is_choosy: bool,
) -> None:
    """SCH-105: however pods push machines from one reservation to another, each has a place in the end, none is given
    out twice, and nobody waits, since everything may be bought as well."""
    given_out = [reservation(f"cr-{i}", k, zone=z, left=n) for i, (k, z, n) in enumerate(places)]
    snapshot = choosy(*given_out, pods=0) if is_choosy else cluster(*given_out, pods=0)
    asked = tuple(
        make_pod(f"p-{i}", cpu=f"{cpu}m", node_selector={keys.ZONE: zone} if zone else {})
        for i, (cpu, zone) in enumerate(pods)
    )
    if is_choosy:
        asked = tuple(pod for pod, (cpu, _) in zip(asked, pods, strict=True) if cpu < 1900)
    plan = planned(replace(snapshot, pods=asked), policy)
    assert plan.unschedulable == {}
    used = Counter(name for one in reserved(plan) for name in values(one, ID_LABEL))
    assert all(used[one.id] <= one.left for one in given_out)
    assert sum(len(one.pods) for one in plan.machines) == len(asked)
