"""Partitions of a placement group as topology domains (EC-06, IT-44)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.generations import V1
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    make_node_class,
    make_pod,
    make_pool,
    make_snapshot,
    make_spread,
)
from tests.support.planning.snapshots import plan_for

RACKS = make_node_class(generation_api=V1, placement_group_id="pg-1", partitions=3)


def planned(*rules: Expression, **pod: Any) -> Plan:
    pool = make_pool(generation_api=V1, requirements=rules)
    return plan_for(make_snapshot(make_pod(**pod), pools=(pool,), node_classes=(RACKS,)))


@pytest.mark.parametrize("partition", ["1", "3"])
def test_a_pod_may_choose_a_partition(partition: str) -> None:
    (machine,) = planned(node_selector={keys.PARTITION: partition}).machines
    assert machine.labels[keys.PARTITION] == partition


def test_a_pool_may_choose_a_partition() -> None:
    (machine,) = planned(Expression(keys.PARTITION, "In", ("2",))).machines
    assert machine.labels[keys.PARTITION] == "2"


def test_a_partition_that_the_group_lacks_is_not_to_be_had() -> None:
    plan = planned(node_selector={keys.PARTITION: "4"})
    assert plan.machines == ()


def test_a_pod_may_ask_for_the_group_itself() -> None:
    assert planned(node_selector={keys.PLACEMENT_GROUP: "pg-1"}).machines
    assert not planned(node_selector={keys.PLACEMENT_GROUP: "pg-2"}).machines


def test_pods_may_spread_over_partitions() -> None:
    """A topology key like any other: one machine in each partition."""
    pods = tuple(make_spread_pods(3))
    pool = make_pool(generation_api=V1, requirements=())
    plan = plan_for(make_snapshot(*pods, pools=(pool,), node_classes=(RACKS,)))
    assert sorted(machine.labels[keys.PARTITION] for machine in plan.machines) == ["1", "2", "3"]


def make_spread_pods(count: int) -> Iterator[Pod]:
    """The numbers of replicas per partition differ by one at most."""
    for one in range(count):
        yield make_pod(f"pod-{one}", labels={"app": "web"}, spread=(make_spread(keys.PARTITION),))
