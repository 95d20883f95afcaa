"""Requirements on zone ids, which are the same in every account (IT-41, EC-15)."""

from __future__ import annotations

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.nodepools import SubnetRef
from shared.domain.snapshot import Snapshot
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    make_node,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
)
from tests.support.planning.snapshots import plan_for

IDS = ("usw2-az2", "usw2-az1", "usw2-az3")
WEB = {"app": "web"}


def with_ids(*pods: object, **changes: object) -> Snapshot:
    """A cluster whose subnets have zone ids."""
    subnets = tuple(SubnetRef(f"subnet-{z}", z, i) for z, i in zip(ZONES, IDS, strict=True))
    classes = (make_node_class(subnets=subnets),)
    return make_snapshot(*pods, **{"node_classes": classes, **changes})  # type: ignore[arg-type]


def test_a_pod_that_asks_for_a_zone_id_gets_that_zone() -> None:
    [machine] = plan_for(with_ids(make_pod(node_selector={keys.ZONE_ID: IDS[1]}))).machines
    assert (machine.labels[keys.ZONE], machine.labels[keys.ZONE_ID]) == (ZONES[1], IDS[1])
    assert machine.offering.zone == ZONES[1]


def test_several_ids_leave_several_zones() -> None:
    term = (Expression(keys.ZONE_ID, "NotIn", (IDS[0],)),)
    [machine] = plan_for(with_ids(make_pod(required_terms=(term,)))).machines
    [zones] = [e.values for e in machine.requirements if e.key == keys.ZONE]
    assert zones == (ZONES[1], ZONES[2])


def test_a_pool_that_asks_for_a_zone_id_stays_there() -> None:
    wanted = Expression(keys.ZONE_ID, "In", (IDS[2],))
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS, wanted))
    [machine] = plan_for(with_ids(make_pod(), pools=(pool,))).machines
    assert machine.labels[keys.ZONE] == ZONES[2]


def test_a_zone_and_the_id_of_another_do_not_meet() -> None:
    selector = {keys.ZONE: ZONES[0], keys.ZONE_ID: IDS[1]}
    plan = plan_for(with_ids(make_pod(node_selector=selector)))
    assert "required offering" in plan.unschedulable["uid-pod"]


def test_an_unknown_id_is_nowhere() -> None:
    plan = plan_for(with_ids(make_pod(node_selector={keys.ZONE_ID: "use1-az1"})))
    assert list(plan.unschedulable) == ["uid-pod"]


def test_subnets_that_tell_no_id_are_named() -> None:
    """Subnets of a v1alpha1 class have no zone ids (T-12)."""
    asking = make_pod(node_selector={keys.ZONE_ID: IDS[0]})
    plan = plan_for(make_snapshot(asking, make_pod("other")))
    assert "the zone ids of the subnets" in plan.unschedulable["uid-pod"]
    assert len(plan.machines) == 1
    wanted = Expression(keys.ZONE_ID, "In", (IDS[0],))
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS, wanted))
    plan = plan_for(make_snapshot(make_pod(), pools=(pool,)))
    assert "the zone ids of the subnets" in plan.unschedulable["uid-pod"]


def test_sch_79_pods_spread_over_zone_ids() -> None:
    pods = make_pods(6, labels=WEB, spread=(make_spread(keys.ZONE_ID),))
    plan = plan_for(with_ids(*pods))
    assert {(m.labels[keys.ZONE_ID], m.offering.zone): len(m.pods) for m in plan.machines} == {
        (i, z): 2 for z, i in zip(ZONES, IDS, strict=True)
    }


def test_sch_79_a_spread_over_ids_respects_the_zone_a_pod_asks_for() -> None:
    selector = {keys.ZONE: ZONES[1]}
    rules = (make_spread(keys.ZONE_ID, 5), make_spread(keys.ZONE, 5))
    pods = make_pods(3, labels=WEB, node_selector=selector, spread=rules)
    plan = plan_for(with_ids(*pods))
    assert [(m.labels[keys.ZONE_ID], len(m.pods)) for m in plan.machines] == [(IDS[1], 3)]


def test_sch_09_a_node_must_have_the_label() -> None:
    pod = make_pod(node_selector={keys.ZONE_ID: IDS[0]})
    labelled = make_node("yes", labels={keys.ZONE_ID: IDS[0]})
    plan = plan_for(with_ids(pod, nodes=(make_node("no"), labelled)))
    assert list(plan.existing) == ["yes"]
