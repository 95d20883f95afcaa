"""minValues: the distinct label values that a pool requires (SCH-12, SCH-103)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint, Toleration
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    amounts,
    make_catalogue,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_type,
    make_types,
)
from tests.support.planning.snapshots import plan_for, pods_per_machine

V1_CLASS = make_node_class(generation_api=V1)
FAMILY = keys.AWS_PREFIX + "instance-family"


def choosy_pool(key: str, least: int, **changes: object) -> NodePool:
    """A NodePool with minValues for a label."""
    wanted = Expression(key, "Exists", (), least)
    wants = (*DEFAULT_REQUIREMENTS, wanted)
    fields: dict[str, Any] = {"generation_api": V1, "requirements": wants, **changes}
    return make_pool(**fields)


def choosy(*pods: object, key: str = keys.INSTANCE_TYPE, least: int, **changes: object) -> Snapshot:
    pools = (choosy_pool(key, least),)
    return make_snapshot(*pods, **{"pools": pools, "node_classes": (V1_CLASS,), **changes})  # type: ignore[arg-type]


def least_values(machine: object, key: str) -> list[int | None]:
    return [e.min_values for e in machine.requirements if e.key == key]  # type: ignore[attr-defined]


def test_sch_12_a_full_batch_leaves_enough_kinds() -> None:
    """Seven sizes of 2 to 128 cores; with three to choose from, 32 cores are the most to use."""
    plan = plan_for(choosy(*make_pods(60, cpu="1"), least=3))
    assert pods_per_machine(plan) == [32, 28]
    assert all(len(machine.instance_types) >= 3 for machine in plan.machines)
    assert not any(machine.min_values_relaxed for machine in plan.machines)


@pytest.mark.parametrize(("least", "machines"), [(5, 1), (6, 0)])
def test_sch_12_an_operator_may_leave_too_few_kinds(least: int, machines: int) -> None:
    """Of seven sizes five have more than four cores."""
    cores = Expression(keys.AWS_PREFIX + "instance-cpu", "Gt", ("4",), least)
    pool = make_pool(generation_api=V1, requirements=(*DEFAULT_REQUIREMENTS, cores))
    plan = plan_for(make_snapshot(make_pod(), pools=(pool,), node_classes=(V1_CLASS,)))
    assert len(plan.machines) == machines
    assert all("5 distinct values, 6 needed" in text for text in plan.unschedulable.values())


def test_sch_12_strict_pods_that_leave_too_few_kinds_wait() -> None:
    plan = plan_for(choosy(make_pod(cpu="60"), least=3))
    assert plan.machines == ()
    text = plan.unschedulable["uid-pod"]
    met = "minValues requirement is not met for label(s) (label(s)=[node.kubernetes.io/instance-type])"
    assert met in text
    assert "2 distinct values, 3 needed" in text


def test_sch_12_best_effort_lowers_the_number_to_what_is_there() -> None:
    """NC-07: annotations of a NodeClaim."""
    snapshot = choosy(make_pod(cpu="60"), least=3)
    [machine] = plan_for(snapshot, min_values_policy="BestEffort").machines
    assert machine.instance_types == ("m5.x064", "m5.x128")
    assert least_values(machine, keys.INSTANCE_TYPE) == [2]
    assert machine.min_values_relaxed


def test_sch_12_best_effort_keeps_the_number_where_it_can() -> None:
    snapshot = choosy(make_pod(cpu="1"), least=3)
    [machine] = plan_for(snapshot, min_values_policy="BestEffort").machines
    assert least_values(machine, keys.INSTANCE_TYPE) == [3]
    assert not machine.min_values_relaxed


def test_sch_12_a_lowered_machine_is_not_lowered_again() -> None:
    """Two pods of 60 cores would fit on the largest type alone: they get a machine each."""
    snapshot = choosy(*make_pods(2, cpu="60"), least=3)
    plan = plan_for(snapshot, min_values_policy="BestEffort")
    assert pods_per_machine(plan) == [1, 1]


def test_sch_12_values_are_counted_for_any_label() -> None:
    types = (make_type("m5.a", 4), make_type("m5.b", 4), make_type("c5.a", 2))
    catalogue = make_catalogue(types)
    assert plan_for(choosy(make_pod(), key=FAMILY, least=2, catalogue=catalogue)).machines
    plan = plan_for(choosy(make_pod(cpu="3"), key=FAMILY, least=2, catalogue=catalogue))
    assert "1 distinct values, 2 needed" in plan.unschedulable["uid-pod"]


def test_sch_12_another_pool_takes_what_a_choosy_one_refuses() -> None:
    pools = (choosy_pool(keys.INSTANCE_TYPE, 7, weight=9), make_pool("plain", generation_api=V1))
    plan = plan_for(choosy(make_pod(cpu="60"), least=0, pools=pools))
    assert [machine.pool for machine in plan.machines] == ["plain"]


def cut_list() -> Snapshot:
    """Two cheap types of one family, and one expensive type of another."""
    types = (
        make_type("m5.a", 4, price=1),
        make_type("m5.b", 4, price=2),
        make_type("c5.a", 4, price=9),
    )
    return choosy(make_pod(), key=FAMILY, least=2, catalogue=make_catalogue(types))


def test_sch_103_a_list_that_is_cut_below_min_values_fails_its_pods() -> None:
    assert plan_for(cut_list(), max_instance_types=3).unschedulable == {}
    plan = plan_for(cut_list(), max_instance_types=2)
    assert plan.machines == ()
    assert plan.unschedulable["uid-pod"].startswith(
        "pod didn't schedule because nodepool \"default\" couldn't meet minValues requirements"
    )


def test_sch_103_best_effort_cuts_and_lowers() -> None:
    plan = plan_for(cut_list(), max_instance_types=2, min_values_policy="BestEffort")
    [machine] = plan.machines
    assert machine.instance_types == ("m5.a", "m5.b")
    assert least_values(machine, FAMILY) == [1]
    assert machine.min_values_relaxed


def test_sch_12_limits_count_before_the_choice() -> None:
    """Types that a limit excludes do not count (SCH-101)."""
    pool = choosy_pool(keys.INSTANCE_TYPE, 3, limits=amounts(cpu="4"))
    snapshot = choosy(make_pod(), least=3, pools=(pool,), catalogue=make_catalogue(make_types()))
    assert "2 distinct values, 3 needed" in plan_for(snapshot).unschedulable["uid-pod"]


def test_sch_12_pods_that_tolerate_or_not_share_a_choosy_machine() -> None:
    """minValues must hold after a second class is placed on an open machine too."""
    taint = Taint("team", "NoSchedule", "x")
    pool = choosy_pool(keys.INSTANCE_TYPE, 3, taints=(taint,))
    one, two = (Toleration("team", "Exists"),), (Toleration("team", "Equal", "x"),)
    pods = (
        make_pod("a", cpu="20", tolerations=one),
        make_pod("b", cpu="10", tolerations=two),
        make_pod("c", cpu="5", tolerations=two),
    )
    plan = plan_for(choosy(*pods, least=3, pools=(pool,)))
    assert [machine.pods for machine in plan.machines] == [("uid-a", "uid-b"), ("uid-c",)]
