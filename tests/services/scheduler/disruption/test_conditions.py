"""Conditions that say how far a machine is from being disrupted (DIS-16, DIS-20, DIS-32..34, ACC-28..ACC-30)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.disruption.conditions import due, occupied_nodes
from shared.domain.machines.machine import (
    CONSOLIDATABLE,
    EMPTY,
    EXPIRED,
    INITIALIZED,
    Condition,
    Machine,
)
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, NodePool
from shared.domain.workloads.pods import Owner, Pod
from tests.support.planning.builders import make_bound_pod, make_machine, make_pool

NOW = 10_000.0
DAEMON = Owner("DaemonSet", "agent", "u")
STATEFUL = Owner("StatefulSet", "db", "u")


def machine(name: str = "m", node: str = "n", **conditions: Condition) -> Machine:
    """Initialised a minute ago, with more conditions."""
    found = {INITIALIZED: Condition("True", since=NOW - 60), **conditions}
    return make_machine(name, node_name=node, created_at=NOW - 100, conditions=found)


def having(condition: str) -> dict[str, Any]:
    return {condition: Condition("True", since=NOW - 5)}


def changes_due(
    found: Machine, *pods: Pod, pool: NodePool | None = None, nominated: tuple[str, ...] = ()
) -> list[tuple[str, bool]]:
    chosen = pool or make_pool(consolidate_after_seconds=30.0)
    written = due([found], {chosen.key: chosen}, occupied_nodes(pods), set(nominated), now=NOW)
    return [(change.condition, change.is_true) for change in written]


def v1(**changes: Any) -> tuple[Machine, NodePool]:
    """A NodeClaim whose last pod came or went some seconds ago, in a pool with a consolidateAfter."""
    after = changes.pop("after", 30.0)
    pool = make_pool(generation_api=V1, consolidate_after_seconds=after)
    return replace(machine(), generation_api=V1, **changes), pool


def test_an_empty_machine_is_marked_once() -> None:
    """DIS-32: time after empty; ACC-28: an empty node goes after its time."""
    assert changes_due(machine()) == [(EMPTY, True)]
    assert changes_due(machine(**having(EMPTY))) == []


def test_a_pod_takes_the_mark_off() -> None:
    """DIS-32, ACC-29; one that is false already is not written again."""
    pod = make_bound_pod("p", "n")
    assert changes_due(machine(**having(EMPTY)), pod) == [(EMPTY, False)]
    lost: dict[str, Any] = {EMPTY: Condition("False", since=NOW)}
    assert changes_due(machine(**lost), pod) == []


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (make_bound_pod("p", "n"), True),
        (make_bound_pod("p", "n", owner=DAEMON), False),
        (make_bound_pod("p", "n", owner=Owner("Node", "n", "u")), False),
        (make_bound_pod("p", "n", phase="Succeeded"), False),
        (make_bound_pod("p", "n", phase="Failed"), False),
        (make_bound_pod("p", "n", terminating=True), True),
        (make_bound_pod("p", "n", terminating=True, owner=STATEFUL), True),
        (make_bound_pod("p", "n", terminating=True, owner=DAEMON), False),
    ],
)
def test_only_pods_that_live_on_the_node_keep_it(pod: Pod, counts: bool) -> None:
    """DIS-16; a pod on its way out still runs."""
    assert occupied_nodes([pod]) == ({"n"} if counts else set())


@pytest.mark.parametrize("ahead", [5.0, 3600.0])
def test_a_time_far_in_the_future_is_that_of_a_wrong_clock(ahead: float) -> None:
    """DIS-20: a watcher or launcher whose clock was an hour ahead must not keep a node for an hour."""
    found, pool = v1(last_pod_event_at=NOW + ahead)
    wanted = [] if ahead == 5.0 else [(CONSOLIDATABLE, True)]
    assert changes_due(found, pool=pool) == wanted
    initialised = {INITIALIZED: Condition("True", since=NOW + ahead)}
    assert changes_due(replace(found, conditions=initialised), pool=pool) == wanted


def test_nothing_starts_before_the_machine_is_initialised() -> None:
    """DIS-33: the time begins at initialization."""
    assert changes_due(make_machine("m", node_name="n")) == []


@pytest.mark.parametrize("name", ["m", "n"])
def test_a_nominated_machine_is_not_empty(name: str) -> None:
    """DIS-33, BAT-11, SVC-06: by node name or by machine name."""
    assert changes_due(machine(), nominated=(name,)) == []
    assert changes_due(machine(**having(EMPTY)), nominated=(name,)) == [(EMPTY, False)]


@pytest.mark.parametrize(
    "pool",
    [
        make_pool(consolidate_after_seconds=None),
        make_pool(consolidate_after_seconds=0.0, consolidation_policy=WHEN_UNDERUTILIZED),
    ],
)
def test_a_pool_without_ttl_marks_nothing_empty(pool: NodePool) -> None:
    """P-08; one of before becomes false."""
    assert changes_due(machine(), pool=pool) == []
    assert changes_due(machine(**having(EMPTY)), pool=pool) == [(EMPTY, False)]


def test_an_expired_machine_says_so() -> None:
    """M-03: conditions of a Machine."""
    pool = make_pool(expire_seconds=100.0)
    assert changes_due(machine(), pool=pool) == [(EXPIRED, True)]
    assert changes_due(machine(), pool=replace(pool, expire_seconds=101.0)) == []


def test_v1_machines_are_consolidatable_when_pods_have_settled() -> None:
    """DIS-20: consolidateAfter since the last pod came or went, or since initialisation."""
    for seconds, is_due in ((30, True), (29, False)):
        found, pool = v1(last_pod_event_at=NOW - seconds)
        assert changes_due(found, pool=pool) == ([(CONSOLIDATABLE, True)] if is_due else [])
    young, pool = v1(after=61.0)
    assert changes_due(young, pool=pool) == []


def test_a_new_pod_starts_the_wait_again() -> None:
    """DIS-20: the condition Consolidatable."""
    found, pool = v1(last_pod_event_at=NOW - 1)
    consolidatable = replace(found, conditions={**found.conditions, **having(CONSOLIDATABLE)})
    assert changes_due(consolidatable, pool=pool) == [(CONSOLIDATABLE, False)]


def test_consolidate_after_never_is_never() -> None:
    found, pool = v1(after=None)
    assert changes_due(found, pool=pool) == []


def test_leaving_machines_and_those_without_a_pool_are_left_alone() -> None:
    assert changes_due(replace(machine(), terminating=True)) == []
    assert changes_due(replace(machine(), pool="gone")) == []
