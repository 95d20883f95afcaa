"""An invalid object is reported and does not affect the rest of the plan (POD-03, POD-05, F27)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from shared.api.core.pods import parse_pod
from shared.domain import labels as keys
from shared.domain.expressions import Expression, Toleration
from shared.domain.instance_types.types import InstanceType, Offering
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_daemon_set,
    make_node,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
    make_type,
)
from tests.support.planning.snapshots import check_plan, plan_for

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def written_pod(name: str, spec: dict[str, Any]) -> Pod:
    """A pending pod with this spec."""
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    metadata = {
        "uid": f"uid-{name}",
        "name": name,
        "namespace": "default",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return parse_pod({"metadata": metadata, "spec": spec, "status": {"conditions": [waiting]}})


def container(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}


def selecting(operator: str) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": "app", "operator": operator, "values": ["web"]}]}
    return {"topologySpreadConstraints": [{"topologyKey": keys.ZONE, "labelSelector": selector}]}


def affinity(term: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


WRONG_PODS = {
    "tolerations": {"tolerations": [{"operator": "Exists"}] * 10_000},
    "containers[0].resources.requests.cpu": container("plenty"),
    "labelSelector.matchExpressions[0].operator": selecting("Near"),
    "matchExpressions[0].operator": affinity(
        {"matchExpressions": [{"key": "a", "operator": "Is"}]}
    ),
    "matchFields": affinity({"matchFields": [{"key": "metadata.name"}]}),
    "kubernetes.io/hostname": affinity(
        {"matchExpressions": [{"key": keys.HOSTNAME, "operator": "Exists"}]}
    ),
    "resourceClaims": {"resourceClaims": [{"name": "gpu"}]},
}


@pytest.mark.parametrize(("field", "spec"), WRONG_PODS.items())
def test_a_wrong_pod_names_its_field_and_the_others_are_planned(
    field: str, spec: dict[str, Any]
) -> None:
    plan = plan_for(make_snapshot(written_pod("odd", spec), *make_pods(3)))
    assert list(plan.unschedulable) == ["uid-odd"]
    assert field in plan.unschedulable["uid-odd"]
    assert [len(machine.pods) for machine in plan.machines] == [3]


def test_ten_thousand_tolerations_are_only_looked_through() -> None:
    """Records that were not checked by a parser."""
    many = tuple(Toleration(f"key-{i}", "Exists") for i in range(10_000))
    plan = plan_for(make_snapshot(make_pod("odd", tolerations=many), make_pod()))
    assert plan.unschedulable == {}


def with_price(price: Any, name: str = "m5.odd") -> InstanceType:
    """A type with this price in its first zone, and a high price in the second."""
    offers = (
        Offering(ZONES[0], keys.ON_DEMAND, price),
        Offering(ZONES[1], keys.ON_DEMAND, 10**9),
    )
    return replace(make_type(name, 4), offerings=offers)


@pytest.mark.parametrize("price", [-1, math.nan, math.inf, 2**63], ids=str)
def test_an_offering_without_a_price_is_left_out_and_named(price: Any) -> None:
    types = (with_price(price), make_type("m5.good", 4, price=5))
    plan = plan_for(make_snapshot(*make_pods(2), catalogue=make_catalogue(types)))
    [machine] = plan.machines
    assert machine.instance_types == ("m5.good", "m5.odd")
    assert plan.cost_micro_usd_per_hour == 5
    assert plan.faults == (
        f"instance type m5.odd, on-demand in {ZONES[0]}: {price!r} is not a price in micro-USD per"
        " hour; the offering is left out",
    )


def test_a_type_with_no_price_at_all_is_no_choice() -> None:
    odd = replace(with_price(-1), offerings=(Offering(ZONES[0], keys.ON_DEMAND, -1),))
    types = (odd, make_type("m5.good", 4))
    [machine] = plan_for(make_snapshot(make_pod(), catalogue=make_catalogue(types))).machines
    assert machine.instance_types == ("m5.good",)


def test_free_is_a_price() -> None:
    """A reservation costs a ten-millionth of the price, which is zero micro-USD (IT-07)."""
    offers = (
        Offering(ZONES[0], keys.RESERVED, 0),
        Offering(ZONES[0], keys.ON_DEMAND, 96_000),
    )
    types = (replace(make_type("m5.held", 4), offerings=offers), make_type("m5.cheap", 4, price=1))
    kinds = Expression(keys.CAPACITY_TYPE, "In", (keys.RESERVED, keys.ON_DEMAND))
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS[:2], kinds))
    snapshot = make_snapshot(make_pod(), pools=(pool,), catalogue=make_catalogue(types))
    [machine] = plan_for(snapshot).machines
    assert machine.instance_types == ("m5.held", "m5.cheap")
    assert machine.offering == offers[0]
    without = plan_for(make_snapshot(make_pod(), catalogue=make_catalogue(types)))
    assert without.machines[0].instance_type == "m5.cheap"


@pytest.mark.parametrize(
    "wrong",
    [
        (Expression(keys.ZONE, "In", ZONES[:1]), Expression(keys.ZONE, "In", ZONES[1:])),
        (Expression(keys.ARCH, "In", ("arm64",)),),
        (Expression("size", "Gt", ("5",)), Expression("size", "Lt", ("3",))),
    ],
)
def test_a_pool_that_contradicts_itself_is_named(wrong: tuple[Expression, ...]) -> None:
    odd = make_pool("odd", weight=9, requirements=(*DEFAULT_REQUIREMENTS, *wrong))
    plan = plan_for(
        make_snapshot(make_pod(), make_pod("huge", cpu="999"), pools=(odd, make_pool()))
    )
    assert [machine.pool for machine in plan.machines] == ["default"]
    [fault] = plan.faults
    assert 'provisioner "odd" cannot be used: spec.requirements' in fault
    assert f"contradict each other on {wrong[-1].key}" in fault
    assert fault in plan.unschedulable["uid-huge"]


def test_a_pool_with_an_unreadable_requirement_is_named() -> None:
    wrong = Expression("size", "Gt", ("large",))
    odd = make_pool("odd", requirements=(*DEFAULT_REQUIREMENTS, wrong))
    plan = plan_for(make_snapshot(make_pod(), pools=(odd, make_pool())))
    assert [machine.pool for machine in plan.machines] == ["default"]
    assert "non-negative integer" in plan.faults[0]


def test_asking_for_the_absence_of_a_label_is_no_contradiction() -> None:
    gpu = keys.AWS_PREFIX + "instance-gpu-count"
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS, Expression(gpu, "DoesNotExist")))
    plan = plan_for(make_snapshot(make_pod(), pools=(pool,)))
    assert (len(plan.machines), plan.faults) == (1, ())


def test_a_daemon_set_with_an_unreadable_term_takes_room_all_the_same() -> None:
    """Reserving too much room is better than a daemon pod that does not fit (SCH-46)."""
    term = (Expression("size", "Near", ("a",)),)
    daemons = (make_daemon_set(required_terms=(term,)),)
    [machine] = plan_for(make_snapshot(make_pod(), daemon_sets=daemons)).machines
    assert machine.requests["cpu"] == 200


@pytest.mark.parametrize(
    "changes",
    [{"catalogue": make_catalogue(())}, {"node_classes": ()}, {"pools": ()}],
    ids=["no types", "no classes", "no pools"],
)
def test_without_anything_to_build_existing_nodes_are_still_used(changes: dict[str, Any]) -> None:
    pods = (make_pod("small"), make_pod("big", cpu="99"))
    plan = plan_for(make_snapshot(*pods, nodes=(make_node(),), **changes))
    assert plan.existing == {"node-1": ("uid-small",)}
    assert list(plan.unschedulable) == ["uid-big"]


def test_amounts_beyond_any_machine_do_not_wrap_around() -> None:
    """64-bit sums: one pod near the largest amount, and a node that is already overcommitted."""
    huge = make_pod("huge", requests={"cpu": 2**62, "memory": 2**62, "pods": 1})
    bound = make_bound_pod("bound", "node-1", cpu="8")
    snapshot = make_snapshot(huge, make_pod(), bound, nodes=(make_node(),))
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert list(plan.unschedulable) == ["uid-huge"]
    assert plan.existing == {}


def test_a_spread_over_a_key_that_nobody_has_is_named() -> None:
    rule = (make_spread("example.com/rack"),)
    plan: Plan = plan_for(make_snapshot(make_pod("odd", spread=rule), make_pod()))
    assert "key=example.com/rack" in plan.unschedulable["uid-odd"]
    assert len(plan.machines) == 1
