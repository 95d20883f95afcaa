"""Machines of a placement group: what EC2 could not place into it, and what a spread group takes (EC-06, LCH-61)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.shortages import MOST_SPREAD, in_group
from shared.domain.pools.generations import V1
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    ZONES,
    make_catalogue,
    make_machine,
    make_node_class,
    make_pod,
    make_pool,
    make_snapshot,
    make_type,
)
from tests.support.planning.snapshots import plan_for

A, B, C = ZONES
EVERYWHERE = frozenset((keys.ON_DEMAND, "m5.large", zone) for zone in ZONES)


def planned(*, group: str = "pg-1", **changes: Any) -> Plan:
    """One pod, one type in three zones, one pool with a class in this placement group."""
    fields = {"generation_api": V1, "placement_group_id": group, **changes.pop("of_class", {})}
    pool = make_pool(generation_api=V1, requirements=())
    return plan_for(
        make_snapshot(
            make_pod(),
            pools=(pool,),
            node_classes=(make_node_class(**fields),),
            catalogue=make_catalogue((make_type(),)),
            **changes,
        )
    )


def refused(group: str, *but: str) -> frozenset[Any]:
    return frozenset(in_group(one, group) for one in EVERYWHERE if one[2] not in but)


def test_what_one_group_has_no_room_for_is_bought_in_another_or_in_none() -> None:
    assert planned(unavailable=refused("pg-1")).machines == ()
    assert planned(unavailable=refused("pg-1"), group="pg-2").machines
    assert planned(unavailable=refused("pg-1"), group="").machines


def test_the_zone_that_is_left_is_taken() -> None:
    (machine,) = planned(unavailable=refused("pg-1", B)).machines
    assert machine.offering.zone == B


def test_what_nobody_gets_no_group_gets() -> None:
    assert planned(unavailable=EVERYWHERE).machines == ()


def running(zone: str, count: int, group: str = "pg-1") -> tuple[Any, ...]:
    labels = {keys.ZONE: zone, keys.PLACEMENT_GROUP: group}
    return tuple(
        make_machine(
            f"{zone}-{group}-{number}", labels=labels, provider_id=f"aws:///{zone}/i-{number}"
        )
        for number in range(count)
    )


def test_a_spread_group_takes_seven_instances_in_each_zone() -> None:
    spread: dict[str, Any] = {"of_class": {"spreads": True}}
    full = (*running(A, MOST_SPREAD), *running(B, MOST_SPREAD - 1))
    (machine,) = planned(machines=full, **spread).machines
    assert machine.offering.zone in (B, C)
    everywhere = tuple(one for zone in ZONES for one in running(zone, MOST_SPREAD))
    assert planned(machines=everywhere, **spread).machines == ()


def planned_in(zones: tuple[str, ...], pods: int, policy: str, **changes: Any) -> Plan:
    """Pods that each fill a machine, for a pool with a spread group in these zones."""
    zone = Expression(keys.ZONE, "In", zones)
    fields: dict[str, Any] = {"generation_api": V1, "placement_group_id": "pg-1", "spreads": True}
    return plan_for(
        make_snapshot(
            *(make_pod(f"p-{number}", cpu="1500m") for number in range(pods)),
            pools=(make_pool(generation_api=V1, requirements=(zone,)),),
            node_classes=(make_node_class(**fields),),
            catalogue=make_catalogue((make_type(),)),
            **changes,
        ),
        packing_policy=policy,
    )


@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])
def test_one_round_plans_no_more_machines_than_the_group_takes(policy: str) -> None:
    """EC2 need not refuse any, and the pods that wait are told why."""
    plan = planned_in((A, B), 16, policy)
    assert len(plan.machines) == 2 * MOST_SPREAD
    assert len(plan.unschedulable) == 2
    assert all("spread placement group" in why for why in plan.unschedulable.values())
    fewer = planned_in((A, B), 16, policy, machines=running(B, 3))
    assert len(fewer.machines) == 2 * MOST_SPREAD - 3
    waiting = make_machine("new", generation_api=V1, node_class="default")
    last = planned_in((A,), 8, policy, machines=(*running(A, 5), waiting))
    assert len(last.machines) == 1


def test_other_groups_and_other_strategies_have_no_such_limit() -> None:
    everywhere = tuple(one for zone in ZONES for one in running(zone, MOST_SPREAD))
    assert planned(machines=everywhere).machines
    assert planned(machines=everywhere, of_class={"spreads": True}, group="pg-2").machines
