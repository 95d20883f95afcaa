"""Which machines may be disrupted, and the reasons for the others (DIS-10..16)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.disruption.candidates import (
    ANNOTATED,
    BUSY,
    LEAVING,
    NO_NODE,
    NO_POOL,
    NOMINATED,
    NOT_INITIALIZED,
    disruption_cost,
    eviction_cost,
)
from shared.disruption.pod_blocks import ANNOTATED as POD_ANNOTATED
from shared.disruption.pod_blocks import PDB_BLOCKS, TWO_PDBS, annotation_event, first_block
from shared.disruption.records import COST_UNIT
from shared.domain import labels as keys
from shared.domain.expressions import Toleration
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import Owner, Pod
from tests.support.planning.builders import make_bound_pod, make_pool
from tests.support.planning.disruption import NOW, look, make_cluster, make_running, pods_on

WEB_PDB = PodDisruptionBudget("pdb", "default", "web", {"app": "web"}, allowed=0)


def texts(snapshot: Any, **how: Any) -> list[str]:
    return [rejection.text for rejection in look(snapshot, **how)[1]]


def test_an_initialised_node_of_a_known_pool_is_a_candidate_with_its_price_and_pods() -> None:
    candidates, rejections = look(make_cluster([make_running()], *pods_on("n1", 2)))
    assert not rejections
    assert [pod.name for pod in candidates[0].pods] == ["n1-pod-0", "n1-pod-1"]
    assert candidates[0].price_micro_usd_per_hour == 4 * 48_000
    assert not candidates[0].empty


def test_a_type_that_left_the_catalogue_has_no_price() -> None:
    (candidate,), _ = look(make_cluster([make_running(kind="m5.x003")]))
    assert candidate.price_micro_usd_per_hour is None


def test_a_reservation_that_is_paid_for_counts_as_free() -> None:
    """A price of zero is never undercut, so it is not replaced by spot or on-demand (CON-07)."""
    reserved = make_running(capacity_type=keys.RESERVED)
    (candidate,), _ = look(make_cluster([reserved], *pods_on("n1", 1)))
    assert candidate.price_micro_usd_per_hour == 0


def test_every_reason_to_stay_has_karpenters_text() -> None:
    """The conditions for a candidate (DIS-10)."""
    fine = make_running()
    leaving = fine._replace(machine=replace(fine.machine, terminating=True))
    node_leaving = fine._replace(node=replace(fine.node, terminating=True))
    young = make_running(extra=())
    young = young._replace(machine=replace(young.machine, conditions={}))
    held = make_running(node_annotations={keys.DO_NOT_DISRUPT: "true"})
    assert texts(make_cluster([leaving])) == texts(make_cluster([node_leaving])) == [LEAVING]
    assert texts(make_cluster([young])) == [NOT_INITIALIZED]
    assert texts(make_cluster([held])) == [ANNOTATED]
    assert texts(make_cluster([fine]), nominated=frozenset({"n1"})) == [NOMINATED]
    assert texts(make_cluster([fine]), busy=frozenset({fine.machine.uid})) == [BUSY]
    assert texts(make_cluster([fine], pools=(make_pool("other"),))) == [NO_POOL]
    assert texts(replace(make_cluster([fine]), nodes=())) == [NO_NODE]


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        ({"do_not_disrupt": "true"}, POD_ANNOTATED),
        ({"do_not_disrupt": "30m", "started_at": NOW - 29 * 60}, POD_ANNOTATED),
        ({"do_not_disrupt": "30m", "started_at": NOW - 31 * 60}, ""),
        ({"do_not_disrupt": "false"}, ""),
        ({"do_not_disrupt": "tomorrow"}, ""),
        ({"do_not_disrupt": "true", "terminating": True}, ""),
        ({"do_not_disrupt": "true", "phase": "Succeeded"}, ""),
        ({"do_not_disrupt": "true", "owner": Owner("DaemonSet", "d", "d")}, POD_ANNOTATED),
        ({"labels": {"app": "web"}}, PDB_BLOCKS),
        ({"labels": {"app": "web"}, "terminating": True}, ""),
        ({"labels": {"app": "web"}, "owner": Owner("Node", "n1", "n1")}, ""),
        ({"labels": {"app": "web"}, "tolerations": (Toleration("", "Exists"),)}, ""),
        ({"labels": {"app": "api"}}, ""),
    ],
)
def test_a_pod_holds_its_node_by_annotation_or_budget(pod: dict[str, Any], text: str) -> None:
    """DIS-11, DIS-12; ACC-76: the timed annotation blocks until start + 30 m."""
    found = first_block([make_bound_pod("p", "n1", **pod)], [WEB_PDB], now=NOW)
    assert (found.text if found else "") == text


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("", ""),
        ("true", ""),
        ("false", ""),
        ("30m", "DoNotDisruptUntil"),
        ("5s", "DoNotDisruptGracePeriodElapsed"),
        ("thirty minutes", "InvalidDoNotDisruptAnnotation"),
    ],
)
def test_a_pod_is_told_what_its_timed_annotation_comes_to(annotation: str, reason: str) -> None:
    """Events name the end of the time, that it has passed, or that the annotation is invalid (DIS-11)."""
    pod = make_bound_pod("p", "n1", do_not_disrupt=annotation, started_at=NOW - 60)
    note = annotation_event(pod, now=NOW)
    assert (note[1] if note else "") == reason
    assert annotation_event(replace(pod, terminating=True), now=NOW) is None


def test_two_budgets_for_one_pod_block_because_eviction_knows_one_only() -> None:
    open_budgets = [replace(WEB_PDB, allowed=1), replace(WEB_PDB, uid="b", name="b", allowed=1)]
    pod = make_bound_pod("p", "n1", labels={"app": "web"})
    found = first_block([pod], open_budgets, now=NOW)
    assert found is not None
    assert found.text == TWO_PDBS


def test_a_candidate_says_which_pod_holds_it() -> None:
    held = make_bound_pod("stays", "n1", do_not_disrupt="true")
    (candidate,), _ = look(make_cluster([make_running()], held))
    assert (candidate.blocker, candidate.blocking_pod) == (POD_ANNOTATED, "default/stays")


def test_costs_grow_with_priority_and_deletion_cost_within_bounds() -> None:
    """DIS-15: 1 + deletion cost / 2^27 + priority / 2^25, clamped to [-10, 10]."""

    def cost(**changes: Any) -> float:
        return eviction_cost(make_bound_pod("p", "n1", **changes)) / COST_UNIT

    assert cost() == 1
    assert cost(deletion_cost=2**27) == 2
    assert cost(priority=2**25) == 2
    assert cost(deletion_cost=-(2**31)) == -10
    assert cost(priority=2_000_001_000) == 10
    assert disruption_cost(pods_on("n1", 3)) == 4 * COST_UNIT


def test_a_node_whose_pods_cost_nothing_is_empty() -> None:
    """Daemon, mirror and finished pods, and pods of negative cost, do not count (DIS-16)."""

    def empty(*pods: Pod) -> bool:
        return look(make_cluster([make_running()], *pods))[0][0].empty

    assert empty()
    assert empty(make_bound_pod("d", "n1", owner=Owner("DaemonSet", "d", "d")))
    assert empty(make_bound_pod("cheap", "n1", deletion_cost=-(2**27)))
    assert not empty(*pods_on("n1", 1))
