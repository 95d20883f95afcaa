"""Affinity terms select namespaces by labels (SCH-83)."""

from __future__ import annotations

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.workloads.namespaces import NAME_LABEL, Namespace, NamespaceSelector
from shared.domain.workloads.pods import AffinityTerm, Pod
from shared.solver.plan import Plan
from shared.solver.topology.namespaces import with_namespaces
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_node,
    make_pod,
    make_snapshot,
)
from tests.support.planning.builders import make_term as term_over
from tests.support.planning.snapshots import (
    check_plan,
    plan_for,
    pods_per_machine,
    requirement_values,
)

WEB = {"app": "web"}
RED = NamespaceSelector({"team": "red"})
NAMESPACES = (
    Namespace("n1", "red-1", {"team": "red"}),
    Namespace("n2", "red-2", {"team": "red", "stage": "live"}),
    Namespace("n3", "default", {"team": "blue"}),
)


def plan_of(*pods: Pod) -> Plan:
    snapshot = make_snapshot(*pods, namespaces=NAMESPACES)
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    return plan


@pytest.mark.parametrize(
    ("selector", "namespaces", "apart_from"),
    [
        (RED, None, {"red-1", "red-2"}),
        (RED, ("default",), {"red-1", "red-2", "default"}),
        (NamespaceSelector({}, (Expression("stage", "DoesNotExist"),)), None, {"red-1", "default"}),
        (NamespaceSelector({NAME_LABEL: "red-2"}), None, {"red-2"}),
        (NamespaceSelector({"team": "green"}), None, set()),
        (NamespaceSelector({"team": "green"}), ("red-1",), {"red-1"}),
    ],
)
def test_sch_83_an_anti_affinity_sees_the_pods_of_the_selected_and_the_named_namespaces(
    selector: NamespaceSelector, namespaces: tuple[str, ...] | None, apart_from: set[str]
) -> None:
    """The pod's own namespace is not added; a selector without a match selects no pods."""
    term = term_over(keys.HOSTNAME, namespaces=namespaces, namespace_selector=selector)
    for place in ("default", "red-1", "red-2"):
        guard = make_pod("guard", cpu="1", anti_affinity=(term,))
        web = make_pod("web", namespace=place, labels=WEB)
        expected = [1, 1] if place in apart_from else [2]
        assert pods_per_machine(plan_of(guard, web)) == expected, place


def test_sch_83_an_affinity_follows_pods_of_selected_namespaces_only() -> None:
    term = term_over(keys.ZONE, namespace_selector=RED)
    nodes = tuple(make_node(f"node-{z}", labels={keys.ZONE: z}, cpu="1") for z in ZONES)
    decoy = make_bound_pod("decoy", f"node-{ZONES[0]}", labels=WEB)
    leader = make_bound_pod("leader", f"node-{ZONES[1]}", labels=WEB, namespace="red-1")
    follower = make_pod("follower", cpu="9", affinity=(term,))
    snapshot = make_snapshot(follower, decoy, leader, nodes=nodes, namespaces=NAMESPACES)
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    (machine,) = plan.machines
    assert requirement_values(machine, keys.ZONE) == [ZONES[1]]


def test_sch_83_an_affinity_to_namespaces_that_do_not_exist_waits() -> None:
    """No namespace is not the same as no restriction."""
    term = term_over(keys.ZONE, namespace_selector=NamespaceSelector({"team": "green"}))
    plan = plan_of(make_pod("web", labels=WEB, affinity=(term,)))
    assert "pod affinity" in plan.unschedulable["uid-web"]


def test_a_namespace_not_seen_yet_has_the_label_that_all_have() -> None:
    selector = NamespaceSelector({NAME_LABEL: "new"})
    term = term_over(keys.HOSTNAME, namespace_selector=selector)
    guard = make_pod("guard", anti_affinity=(term,))
    snapshot = make_snapshot(guard, make_pod("web", namespace="new", labels=WEB))
    found = with_namespaces(snapshot).pods[0].anti_affinity
    assert found == (AffinityTerm(keys.HOSTNAME, WEB, namespaces=("new",)),)


def test_a_snapshot_without_such_terms_stays_the_same_object() -> None:
    snapshot = make_snapshot(make_pod(affinity=(term_over(keys.ZONE),)))
    assert with_namespaces(snapshot) is snapshot
