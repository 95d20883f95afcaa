"""Pods that share a claim without a volume go to one zone: its volume will be there only (SCH-93)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from shared.solver.volumes.shared_claims import with_shared_claims
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_node,
    make_pod,
    make_snapshot,
)
from tests.support.planning.snapshots import check_plan, plan_for, requirement_values
from tests.support.planning.volumes import in_zones, make_claim, make_storage_class, make_volume

A, B, C = ZONES


def using(name: str, *claims: str, **changes: Any) -> Pod:
    return make_pod(name, volume_claims=claims or ("data",), **changes)


def sharing(*pods: Pod, **changes: Any) -> Snapshot:
    names = sorted({name for pod in pods for name in pod.volume_claims})
    known: dict[str, Any] = {
        "claims": tuple(make_claim(name) for name in names),
        "storage_classes": (make_storage_class(),),
    }
    return make_snapshot(*pods, **{**known, **changes})


def zones_of(plan: Plan) -> dict[str, set[str]]:
    return {uid: set(requirement_values(m, keys.ZONE)) for m in plan.machines for uid in m.pods}


@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])
def test_pods_that_share_an_unbound_claim_are_planned_into_one_zone(policy: str) -> None:
    """Pods too large for one machine, so that only the claim joins them in a zone."""
    snapshot = sharing(*(using(f"p{i}", cpu="100") for i in range(4)))
    plan = plan_for(snapshot, packing_policy=policy)
    check_plan(plan, snapshot)
    zones = zones_of(plan)
    assert len(zones) == 4
    assert len(set.union(*zones.values())) == 1


def test_a_pod_that_has_to_be_in_a_zone_takes_the_others_with_it() -> None:
    large = using("large", cpu="100", node_selector={keys.ZONE: B})
    plan = plan_for(sharing(large, using("small", cpu="99")))
    assert zones_of(plan) == {"uid-large": {B}, "uid-small": {B}}


def test_a_pod_that_runs_already_decides_the_zone() -> None:
    """The claim is bound afterwards."""
    nodes = (make_node("node-1", labels={keys.ZONE: C}, cpu="1"),)
    first = make_bound_pod("first", "node-1", volume_claims=("data",))
    snapshot = sharing(first, using("second", cpu="9"), nodes=nodes)
    assert zones_of(plan_for(snapshot)) == {"uid-second": {C}}


def test_claims_hold_pods_together_through_a_third_pod() -> None:
    """Otherwise the pod with both claims could go to neither zone."""
    pods = (
        using("left", "one", cpu="100"),
        using("right", "two", cpu="100"),
        using("middle", "one", "two", cpu="60"),
    )
    zones = zones_of(plan_for(sharing(*pods)))
    assert len(zones) == 3
    assert len(set.union(*zones.values())) == 1


def test_all_go_where_each_of_them_may_be_whoever_comes_first() -> None:
    first = using("first", cpu="100")
    terms = ((Expression(keys.ZONE, "In", (B, C)),), (Expression(keys.ZONE, "NotIn", (B,)),))
    others = [using(f"p{i}", cpu="60", required_terms=(term,)) for i, term in enumerate(terms)]
    snapshot = sharing(first, *others)
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert zones_of(plan) == {"uid-first": {C}, "uid-p0": {C}, "uid-p1": {C}}


def test_one_that_cannot_follow_stays_pending_and_its_verdict_names_the_claim() -> None:
    here = using("here", cpu="100", node_selector={keys.ZONE: A})
    there = using("there", node_selector={keys.ZONE: B})
    plan = plan_for(sharing(here, there))
    assert zones_of(plan) == {"uid-here": {A}}
    assert 'the persistent volume claim "default/data"' in plan.unschedulable["uid-there"]


def test_one_whose_other_volume_is_elsewhere_stays_pending() -> None:
    """SCH-49: text for a constraint that cannot hold."""
    claims = (make_claim(), make_claim("own", "pv"))
    pods = (using("large", cpu="100", node_selector={keys.ZONE: A}), using("p", "data", "own"))
    plan = plan_for(sharing(*pods, claims=claims, volumes=(make_volume("pv", B),)))
    assert set(plan.unschedulable) == {"uid-p"}
    wanted = "incompatible volume requirements, its volumes need a node with"
    assert wanted in plan.unschedulable["uid-p"]


@pytest.mark.parametrize(
    "changes",
    [
        {"claims": (make_claim("data", "pv"),), "volumes": (make_volume("pv"),)},
        {"storage_classes": (make_storage_class(provisioner="efs.csi.aws.com"),)},
    ],
)
def test_a_claim_that_is_bound_or_reached_from_every_zone_brings_nobody_together(
    changes: dict[str, Any],
) -> None:
    snapshot = sharing(using("a"), using("b"), **changes)
    assert with_shared_claims(snapshot) == (snapshot, {})


def test_a_class_that_names_zones_makes_its_volumes_in_one_of_them() -> None:
    storage = make_storage_class(
        provisioner="disk.example.com", allowed_topologies=(in_zones(A), in_zones(B))
    )
    pods = (using("a", cpu="100"), using("b", cpu="100"))
    zones = zones_of(plan_for(sharing(*pods, storage_classes=(storage,))))
    assert set.union(*zones.values()) in ({A}, {B})


def test_claims_of_two_namespaces_with_one_name_are_two_claims() -> None:
    claims = (make_claim(), make_claim(namespace="other"))
    snapshot = sharing(using("a"), using("b", namespace="other"), claims=claims)
    assert with_shared_claims(snapshot) == (snapshot, {})


@settings(max_examples=40)
@given(st.lists(st.sets(st.sampled_from("rstuv"), min_size=1, max_size=3), min_size=1, max_size=6))
def test_whoever_is_connected_by_claims_is_marked_alike(shares: list[set[str]]) -> None:
    """Compared with a search over the graph of pods."""
    pods = [using(f"p{i}", *sorted(names)) for i, names in enumerate(shares)]
    found, additions = with_shared_claims(sharing(*pods))
    for i, pod in enumerate(found.pods):
        reached, before = {i}, 0
        while len(reached) > before:
            before = len(reached)
            held = set.union(*(shares[j] for j in reached))
            reached |= {j for j, names in enumerate(shares) if names & held}
        alike = {j for j, other in enumerate(found.pods) if other.affinity == pod.affinity}
        assert reached == (alike if pod.affinity else {i})
        assert (pod.uid in additions) == (len(reached) > 1)
