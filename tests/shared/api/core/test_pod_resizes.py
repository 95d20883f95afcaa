"""Pods that are resized in place count with what they hold and what they will get (SCH-60)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.core.pods import parse_pod
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import make_node, make_pod, make_snapshot

META = {
    "name": "web",
    "namespace": "default",
    "uid": "u",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


def resized(asked: str, conditions: tuple[Any, ...] = (), **held: str) -> dict[str, Any]:
    """A pod on node n1. ``held``: ``allocated`` and ``actual`` amounts of CPU; neither: nothing is said."""
    container = {"name": "main"}
    status: dict[str, Any] = {
        **container,
        **({"allocatedResources": {"cpu": held["allocated"]}} if "allocated" in held else {}),
        **({"resources": {"requests": {"cpu": held["actual"]}}} if "actual" in held else {}),
    }
    return {
        "metadata": META,
        "spec": {
            "nodeName": "n1",
            "containers": [{**container, "resources": {"requests": {"cpu": asked}}}],
        },
        "status": {
            "phase": "Running",
            "conditions": list(conditions),
            "containerStatuses": [status],
        },
    }


@pytest.mark.parametrize(
    ("raw", "cpu"),
    [
        (resized("1"), 1000),
        (resized("2", allocated="1", actual="1"), 2000),
        (resized("2", (DEFERRED,), allocated="1", actual="1"), 2000),
        (resized("2", (INFEASIBLE,), allocated="1", actual="1"), 1000),
        (resized("500m", allocated="500m", actual="2"), 2000),
        (resized("500m", allocated="500m", actual="500m"), 500),
        (resized("500m", (INFEASIBLE,), actual="1"), 1000),
        (resized("2", (INFEASIBLE,)), 2000),
    ],
    ids=[
        "no resize", "grows", "deferred", "infeasible", "shrinks", "has shrunk",
        "refused to shrink", "says nothing of what it holds",
    ],
)  # fmt: skip
def test_a_pod_counts_as_kube_scheduler_counts_it(raw: dict[str, Any], cpu: int) -> None:
    pod = parse_pod(raw)
    assert (pod.requests["cpu"], pod.faults) == (cpu, ())


def test_before_kubernetes_1_33_the_field_resize_says_so() -> None:
    raw = resized("2", allocated="1")
    raw["status"]["resize"] = "Infeasible"
    assert parse_pod(raw).requests["cpu"] == 1000


def test_pods_as_a_whole_may_be_resized_too() -> None:
    """The resources of the pod, not of its containers."""
    raw = resized("100m")
    raw["spec"]["resources"] = {"requests": {"cpu": "3"}}
    raw["status"]["allocatedResources"] = {"cpu": "2"}
    raw["status"]["resources"] = {"requests": {"cpu": "2"}}
    assert parse_pod(raw).requests["cpu"] == 3000
    raw["status"]["conditions"] = [INFEASIBLE]
    assert parse_pod(raw).requests["cpu"] == 2000


def test_a_wrong_amount_names_the_field() -> None:
    raw = resized("1")
    raw["status"]["containerStatuses"][0]["resources"] = {"requests": {"cpu": "x"}}
    (fault,) = parse_pod(raw).faults
    assert fault.startswith("status.containerStatuses[0].resources.requests.cpu: 'x' is not")


@given(*[st.integers(1, 8)] * 3, st.sampled_from([(), (DEFERRED,), (INFEASIBLE,)]))
def test_no_pod_counts_less_than_it_holds(
    asked: int, allocated: int, actual: int, conditions: tuple[Any, ...]
) -> None:
    raw = resized(str(asked), conditions, allocated=str(allocated), actual=str(actual))
    cpu = parse_pod(raw).requests["cpu"]
    expected = [allocated, actual] if conditions == (INFEASIBLE,) else [asked, allocated, actual]
    assert cpu == 1000 * max(expected)


@pytest.mark.parametrize(
    ("conditions", "machines"),
    [((DEFERRED,), 1), ((INFEASIBLE,), 0)],
    ids=["deferred", "infeasible"],
)
def test_room_that_a_deferred_resize_waits_for_is_given_to_nobody_else(
    conditions: tuple[Any, ...], machines: int
) -> None:
    """It would never come otherwise. What is infeasible waits for nothing."""
    growing = parse_pod(resized("3", conditions, allocated="1", actual="1"))
    snapshot = make_snapshot(growing, make_pod("other", cpu="2"), nodes=(make_node("n1"),))
    plan = solve(snapshot, now=0.0, settings=SolverSettings())
    assert len(plan.machines) == machines
