"""What each pod costs: dominant shares of real node prices, idle apart; totals are exact."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1
from shared.domain.workloads.pods import Owner, Pod
from shared.simulation.ledgers.allocation import IDLE, charges, summed, without_price, workload_of
from shared.simulation.ledgers.focus import COLUMNS, rows
from tests.support.planning.builders import make_bound_pod, make_pool
from tests.support.planning.disruption import make_cluster, make_running

POOL = make_pool(generation_api=V1)
PRICE = 4 * 48_000
"""Of a node of 4 cores and 16 GiB, in micro-USD an hour."""
AT = datetime(2026, 12, 31, 23, 30, tzinfo=UTC).timestamp()


def found(*pods: Pod, **machine: Any) -> dict[str, int]:
    """By namespace, on one node of 4 cores and 16 GiB."""
    running = make_running("n1", "m5.x004", pool=POOL, **machine)
    return summed(charges(make_cluster([running], *pods, pools=(POOL,))), "namespace")


def test_a_pod_pays_the_largest_of_its_parts_and_the_rest_is_idle() -> None:
    """A quarter of the cores, half of the memory: half of the price."""
    pod = make_bound_pod("a", "n1", cpu="1", memory="8Gi", namespace="shop")
    assert found(pod) == {"shop": PRICE // 2, IDLE: PRICE // 2}


def test_pods_that_ask_for_more_than_the_node_are_scaled_down_and_nothing_is_idle() -> None:
    """One wants all cores, the other all memory: each pays a half."""
    cores = make_bound_pod("a", "n1", cpu="4", memory="1Mi", namespace="cores")
    memory = make_bound_pod("b", "n1", cpu="1m", memory="16Gi", namespace="memory")
    assert found(cores, memory) == {"cores": PRICE // 2, "memory": PRICE // 2}


def test_a_machine_without_a_node_is_idle_and_one_in_a_reservation_costs_nothing_here() -> None:
    assert found(node_name="") == {IDLE: PRICE}
    assert found(labels={keys.CAPACITY_TYPE: keys.RESERVED}) == {}


def test_a_machine_without_a_known_price_is_named_and_not_counted() -> None:
    running = make_running("n1", "m5.x004", pool=POOL, labels={keys.INSTANCE_TYPE: "x9.huge"})
    snapshot = make_cluster([running], pools=(POOL,))
    assert charges(snapshot) == []
    assert without_price(snapshot.machines, {}) == ["NodeClaim/machine-n1"]


def noted(machine: Machine) -> Machine:
    return replace(machine, annotations={keys.PRICE_ANNOTATION: "70000"})


def test_the_price_noted_at_the_launch_counts_where_the_catalogue_has_none() -> None:
    running = make_running("n1", "m5.x004", pool=POOL, labels={keys.INSTANCE_TYPE: "x9.huge"})
    running = running._replace(machine=noted(running.machine))
    snapshot = make_cluster([running], pools=(POOL,))
    assert summed(charges(snapshot), "pool") == {"NodePool/default": 70_000}


@pytest.mark.parametrize(
    ("owner", "labels", "name"),
    [
        (None, {}, "Pod/a"),
        (Owner("ReplicaSet", "web-5c8d", "u"), {"pod-template-hash": "5c8d"}, "Deployment/web"),
        (Owner("ReplicaSet", "web-5c8d", "u"), {}, "ReplicaSet/web-5c8d"),
        (Owner("StatefulSet", "db", "u"), {}, "StatefulSet/db"),
    ],
)
def test_a_workload_is_what_made_the_pod(
    owner: Owner | None, labels: dict[str, str], name: str
) -> None:
    assert workload_of(make_bound_pod("a", "n1", owner=owner, labels=labels)) == name


requests = st.tuples(st.integers(1, 5_000), st.integers(1, 20 * 1024))


@given(st.lists(st.lists(requests, max_size=6), min_size=1, max_size=4))
def test_the_charges_add_up_to_the_price_of_the_machines_exactly(
    nodes: list[list[tuple[int, int]]],
) -> None:
    running = [make_running(f"n{i}", "m5.x004", pool=POOL) for i in range(len(nodes))]
    pods = [
        make_bound_pod(
            f"p{i}-{j}", f"n{i}", cpu=f"{cpu}m", memory=f"{mib}Mi", labels={"team": str(j % 2)}
        )
        for i, wanted in enumerate(nodes)
        for j, (cpu, mib) in enumerate(wanted)
    ]
    snapshot = make_cluster(running, *pods, pools=(POOL,))
    total = PRICE * len(nodes)
    every = charges(snapshot)
    assert all(one.micro_usd_per_hour >= 0 for one in every)
    for by in ("pool", "namespace", "workload", "label=team"):
        assert sum(summed(every, by).values()) == total
    billed = sum(float(row["BilledCost"]) for row in rows(every, region="r", now=AT))
    assert billed == pytest.approx(total / 1e6)


def test_a_row_has_every_column_and_the_periods_that_it_is_in() -> None:
    running = make_running("n1", "m5.x004", pool=POOL)
    (row,) = rows(charges(make_cluster([running], pools=(POOL,))), region="us-west-2", now=AT)
    assert tuple(row) == COLUMNS
    assert row["ChargePeriodStart"] == "2026-12-31T23:00:00Z"
    assert row["BillingPeriodEnd"] == "2027-01-01T00:00:00Z"
    assert (row["x_Namespace"], row["RegionId"]) == (IDLE, "us-west-2")
