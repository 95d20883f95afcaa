"""Which nodes are ill for too long, and when too many are (TRM-20, TRM-21)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.terminator.repair.conditions import (
    TOLERATED_SECONDS,
    NodeHealth,
    Unhealthy,
    by_pool,
    due,
    too_many_unhealthy,
    unhealthy_condition,
)
from shared.concurrency.clock import rfc3339
from shared.domain.nodes import Node

SINCE = 1_700_000_000.0
ILL = Unhealthy("Ready", "False", SINCE)


def node_with(*conditions: tuple[str, str, float]) -> dict[str, Any]:
    rows = [
        {"type": kind, "status": status, "lastTransitionTime": rfc3339(since)}
        for kind, status, since in conditions
    ]
    return {"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": rows}}


@pytest.mark.parametrize(
    ("condition", "status", "minutes"),
    [
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("AcceleratedHardwareReady", "False", 10),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
    ],
)
def test_each_condition_is_tolerated_for_its_time(
    condition: str, status: str, minutes: int
) -> None:
    """TRM-20: counted from its last transition."""
    found = unhealthy_condition(node_with((condition, status, SINCE)))
    assert found == Unhealthy(condition, status, SINCE + minutes * 60)


def test_there_are_no_other_unhealthy_conditions() -> None:
    """TRM-20: which conditions are repaired."""
    assert len(TOLERATED_SECONDS) == 7
    healthy = [("Ready", "True"), ("StorageReady", "Unknown"), ("MemoryPressure", "True")]
    assert (
        unhealthy_condition(node_with(*((kind, status, SINCE) for kind, status in healthy))) is None
    )


def test_of_several_conditions_the_one_that_is_due_first_counts() -> None:
    """TRM-20: which conditions are repaired."""
    long_ill = ("Ready", "Unknown", SINCE - 1500)
    found = unhealthy_condition(node_with(long_ill, ("AcceleratedHardwareReady", "False", SINCE)))
    assert found == Unhealthy("Ready", "Unknown", SINCE + 300)


@pytest.mark.parametrize("status", [None, {"conditions": "ill"}, {"conditions": [{}]}, []])
def test_a_node_that_cannot_be_read_is_not_ill(status: object) -> None:
    """F27: faulty objects."""
    assert unhealthy_condition({"metadata": {"name": "n"}, "status": status}) is None
    undated = {"type": "Ready", "status": "False", "lastTransitionTime": "yesterday"}
    assert unhealthy_condition({"metadata": {}, "status": {"conditions": [undated]}}) is None


def one(
    name: str, illness: Unhealthy | None = None, pool: str = "default", *, terminating: bool = False
) -> NodeHealth:
    labels = {"karpenter.sh/nodepool": pool} if pool else {}
    return NodeHealth(Node(name, name, labels=labels, terminating=terminating), illness)


def test_only_what_is_due_and_does_not_go_already_is_repaired() -> None:
    """TRM-20: which conditions are repaired; TRM-22: a repair does not wait."""
    now = SINCE
    ill = one("ill", ILL)
    others = [
        one("well"),
        one("later", Unhealthy("Ready", "False", now + 1)),
        one("going", ILL, terminating=True),
    ]
    assert due([ill, *others], now=now) == [ill]


@pytest.mark.parametrize(
    ("ill", "all_", "blocked"),
    [(1, 1, False), (1, 4, False), (2, 5, True), (2, 6, False), (2, 10, False), (3, 10, True), (3, 11, False)],
)  # fmt: skip
def test_more_than_a_fifth_rounded_up_are_too_many(ill: int, all_: int, blocked: bool) -> None:
    """TRM-21: a limit on repairs."""
    group = [one(str(n), ILL if n < ill else None) for n in range(all_)]
    assert too_many_unhealthy(group) is blocked


@given(st.integers(1, 300), st.integers(0, 300))
def test_too_many_never_become_fewer_by_one_more_ill_node(all_: int, ill: int) -> None:
    """TRM-21: and at least one node of any pool may be repaired."""
    groups = [
        [one(str(n), ILL if n < count else None) for n in range(all_)]
        for count in (min(ill, all_), min(ill + 1, all_))
    ]
    assert too_many_unhealthy(groups[0]) <= too_many_unhealthy(groups[1])
    assert not too_many_unhealthy([one(str(n), ILL if n < 1 else None) for n in range(all_)])


def test_pools_are_judged_alone_and_machines_without_one_by_the_cluster() -> None:
    """TRM-21; a Provisioner and a NodePool of one name are two."""
    first, second, alone = one("a"), one("b", pool="other"), one("c", pool="")
    labels = {"karpenter.sh/provisioner-name": "default"}
    old = NodeHealth(Node("d", "d", labels=labels), None)
    assert by_pool([first, second, alone, old]) == {
        "": [first, second, alone, old],
        "NodePool/default": [first],
        "NodePool/other": [second],
        "Provisioner/default": [old],
    }
