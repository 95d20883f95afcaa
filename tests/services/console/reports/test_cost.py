"""What nodes cost, and whose share it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.console.picture.rows import NodeRow, PodRow
from services.console.reports.cost import IDLE, MOST_SAMPLES, CostHistory, cost_of

NODE = NodeRow(
    "NodeClaim/a", "a", "a", "default", "m5.large", "z", "spot", 1.0, 0.0, "ready", (), "", None, 1000, 1000, 10
)  # fmt: skip
POD = PodRow("shop/web", "shop/web", NODE.id, 250, 100, "running", 0.0, False, "", "")

pods = st.builds(
    lambda name, cpu, memory: replace(POD, name=name, cpu=cpu, memory=memory),
    st.sampled_from(["shop/a", "shop/b", "web/a"]),
    st.integers(0, 2000),
    st.integers(0, 2000),
)


@given(st.lists(pods, max_size=8), st.floats(0.001, 100))
def test_the_shares_of_namespaces_add_up_to_the_price(found: list[PodRow], price: float) -> None:
    cost = cost_of([replace(NODE, price=price)], found)
    assert sum(cost.by_namespace.values()) == pytest.approx(price)
    assert all(amount >= 0 for amount in cost.by_namespace.values())
    assert cost.total == sum(cost.by_pool.values()) == sum(cost.by_capacity_type.values())


def test_what_no_pod_requested_is_idle() -> None:
    cost = cost_of([NODE], [POD])
    assert cost.by_namespace == {"shop": 0.25, IDLE: 0.75}


def test_nodes_without_a_price_cost_nothing_here() -> None:
    assert cost_of([replace(NODE, price=None)], [POD]).total == 0


def test_the_columns_of_a_chart_have_equal_lengths_and_a_bound() -> None:
    history = CostHistory()
    history.add(1.0, cost_of([NODE], []), None)
    history.add(2.0, cost_of([replace(NODE, pool="other")], []), 0.5)
    series = history.series()
    assert series["byPool"] == {"default": [1.0, 0.0], "other": [0.0, 1.0]}
    assert (series["at"], series["bound"]) == ([1.0, 2.0], [None, 0.5])


def test_an_hour_of_samples_is_kept_and_few_names() -> None:
    history = CostHistory()
    nodes = [replace(NODE, id=str(n), pool=f"pool-{n}") for n in range(80)]
    for at in range(MOST_SAMPLES + 5):
        history.add(float(at), cost_of(nodes, []), None)
    series = history.series()
    assert len(series["at"]) == MOST_SAMPLES
    assert len(series["byPool"]) == 51
    assert sum(values[0] for values in series["byPool"].values()) == 80
