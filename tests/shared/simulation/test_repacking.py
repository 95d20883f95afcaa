"""What the pods of the cluster would cost on new machines, beside the proven lower bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain import labels as keys
from shared.simulation.repacking import repack, without_machines
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import (
    make_bound_pod,
    make_machine,
    make_node,
    make_pod,
    make_snapshot,
)

OURS = make_node("ours", labels={keys.PROVISIONER_NAME: "default"})
OTHER = make_node("other")
MACHINE = make_machine("m", node_name="ours")


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 5)  # each makes three plans
@given(st.lists(st.sampled_from(["100m", "500m", "1", "3"]), min_size=1, max_size=20))
def test_no_policy_costs_less_than_the_bound(sizes: list[str]) -> None:
    pods = [make_bound_pod(f"p{n}", "ours", cpu=cpu) for n, cpu in enumerate(sizes)]
    found = repack(make_snapshot(*pods, nodes=(OURS,), machines=(MACHINE,)), SolverSettings())
    assert found.pods == len(sizes)
    assert found.bound is not None
    assert 0 < found.bound <= min(found.costs.values())
    assert found.costs["LowestCost"] <= found.costs["FewestNodes"]


def test_pods_of_other_nodes_stay_where_they_are() -> None:
    snapshot = make_snapshot(
        make_bound_pod("a", "ours"), make_bound_pod("b", "other"), nodes=(OURS, OTHER),
        machines=(MACHINE,),
    )  # fmt: skip
    emptied = without_machines(snapshot)
    assert {pod.name: pod.node_name for pod in emptied.pods} == {"a": "", "b": "other"}
    assert [node.name for node in emptied.nodes] == ["other"]
    assert emptied.machines == ()


def test_an_empty_cluster_costs_nothing_and_has_no_bound() -> None:
    found = repack(make_snapshot(), SolverSettings())
    assert (found.pods, found.unplaced, found.bound) == (0, 0, None)
    assert set(found.costs.values()) == {0.0}


def test_pods_that_fit_on_no_new_machine_are_counted() -> None:
    found = repack(
        make_snapshot(make_pod("huge", cpu="5000", unschedulable=True)), SolverSettings()
    )
    assert (found.pods, found.unplaced) == (1, 1)
