"""When an empty machine goes, and when it stays (DIS-16, DIS-32..DIS-34, scenarios 28-30)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.emptiness import Emptiness, occupied_nodes, review, within_budgets
from shared.domain.machines import EMPTY, INITIALIZED, Condition, Machine
from shared.domain.nodepools import V1, Budget
from shared.domain.pods import Owner, Pod
from tests.support.builders import make_bound_pod, make_machine, make_node, make_pool

NOW = 10_000.0
DAEMON = Owner("DaemonSet", "agent", "u")
STATEFUL = Owner("StatefulSet", "db", "u")


def machine(name: str = "m", node: str = "n", **conditions: Condition) -> Machine:
    """Initialised, with more conditions."""
    found = {INITIALIZED: Condition("True"), **conditions}
    return make_machine(name, node_name=node, conditions=found)


def empty_since(seconds: float) -> dict[str, Condition]:
    return {EMPTY: Condition("True", since=NOW - seconds)}


def acts(found: Machine, *pods: Pod, ttl: float | None = 30, **changes: Any) -> list[str]:
    return [act.act for act in reviewed(found, *pods, ttl=ttl, **changes)]


def reviewed(
    found: Machine, *pods: Pod, ttl: float | None = 30, nominated: tuple[str, ...] = ()
) -> list[Emptiness]:
    nodes = {"n": make_node("n"), "n2": make_node("n2")}
    pools = {"Provisioner/default": make_pool(consolidate_after_seconds=ttl)}
    return review([found], nodes, pools, occupied_nodes(pods), set(nominated), now=NOW)


def test_an_empty_machine_is_marked_and_goes_after_its_time() -> None:
    """DIS-32, scenario 28: exactly at the TTL, not before."""
    assert acts(machine()) == ["mark"]
    assert acts(machine(**empty_since(29.9))) == []
    (act,) = reviewed(machine(**empty_since(30)))
    assert (act.act, act.ttl_seconds, act.empty_seconds) == ("terminate", 30, 30)


def test_a_pod_that_arrives_in_time_saves_the_machine() -> None:
    """DIS-32, scenario 29: the mark goes, and the clock starts anew."""
    pod = make_bound_pod("p", "n")
    assert acts(machine(**empty_since(29)), pod) == ["unmark"]
    assert acts(machine(**{EMPTY: Condition("False", since=NOW)}), pod) == []
    assert acts(machine(**{EMPTY: Condition("False", since=NOW - 99)})) == ["mark"]


def test_half_empty_machines_stay() -> None:
    """DIS-34, scenario 30: 400 -> 200 pods leaves both nodes."""
    pods = [make_bound_pod(f"p{i}", node) for node in ("n", "n2") for i in range(100)]
    assert acts(machine("m", "n"), *pods) == acts(machine("m2", "n2"), *pods) == []


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (make_bound_pod("p", "n"), True),
        (make_bound_pod("p", "n", owner=DAEMON), False),
        (make_bound_pod("p", "n", owner=Owner("Node", "n", "u")), False),
        (replace(make_bound_pod("p", "n"), phase="Succeeded"), False),
        (replace(make_bound_pod("p", "n"), phase="Failed"), False),
        (make_bound_pod("p", "n", terminating=True), True),
        (make_bound_pod("p", "n", terminating=True, owner=STATEFUL), True),
        (make_bound_pod("p", "n", terminating=True, owner=DAEMON), False),
    ],
)
def test_only_pods_that_live_on_the_node_keep_it(pod: Pod, counts: bool) -> None:
    """DIS-16; a pod on its way out still runs."""
    assert occupied_nodes([pod]) == ({"n"} if counts else set())


def test_nothing_starts_before_the_machine_is_initialised() -> None:
    """DIS-33."""
    young = make_machine("m", node_name="n", conditions=empty_since(999))
    assert acts(young) == []


@pytest.mark.parametrize("name", ["m", "n"])
def test_a_nominated_machine_is_not_empty(name: str) -> None:
    """DIS-33, BAT-11: by node name or by machine name."""
    assert acts(machine(), nominated=(name,)) == []
    assert acts(machine(**empty_since(99)), nominated=(name,)) == ["unmark"]


def test_a_pool_without_ttl_keeps_its_empty_machines() -> None:
    """P-08; a mark of before is taken off."""
    assert acts(machine(), ttl=None) == []
    assert acts(machine(**empty_since(999)), ttl=None) == ["unmark"]


def test_a_ttl_of_zero_goes_at_the_next_look() -> None:
    """P-08: zero is a number, not the absence of one."""
    assert acts(machine(), ttl=0) == ["mark"]
    assert acts(machine(**empty_since(0)), ttl=0) == ["terminate"]


def test_leaving_machines_and_those_without_node_or_pool_are_left_alone() -> None:
    assert acts(replace(machine(**empty_since(99)), terminating=True)) == []
    assert acts(machine(node="gone", **empty_since(99))) == []
    assert acts(replace(machine(**empty_since(99)), pool="gone")) == []


def v1_machines(count: int, leaving: int = 0) -> list[Machine]:
    """Initialised and ready, the first few of them on their way out."""
    fine = {INITIALIZED: Condition("True"), "Ready": Condition("True")}
    return [
        make_machine(f"m{i}", generation_api=V1, conditions=fine, terminating=i < leaving)
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("budgets", "count", "leaving", "expected"),
    [
        ((), 5, 0, 5),
        ((Budget(),), 1, 0, 1),
        ((Budget("2"),), 5, 0, 2),
        ((Budget("2"),), 5, 1, 1),
        ((Budget("50%"),), 5, 0, 3),
        ((Budget("0"),), 5, 0, 0),
        ((Budget("0", ("Drifted",)), Budget("100%")), 5, 0, 5),
    ],
)
def test_budgets_hold_for_empty_machines(
    budgets: tuple[Budget, ...], count: int, leaving: int, expected: int
) -> None:
    """DIS-22..24, DIS-26, scenario 67: the others wait for their turn; marks are free."""
    pools = {"NodePool/default": make_pool(generation_api=V1, budgets=budgets)}
    machines = v1_machines(count, leaving)
    node = make_node("n")
    wanted = [Emptiness("terminate", m, node) for m in machines[leaving:]]
    marks = [Emptiness("mark", machines[0], node)]
    kept = within_budgets([*marks, *wanted], machines, pools, now=NOW)
    assert [act.act for act in kept] == ["mark", *["terminate"] * expected]
