"""Default spread constraints of the cluster (SCH-85), and pods with resource claims (POD-08)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.workloads.pods import Owner, SpreadConstraint
from shared.solver.reasons import NO_DEVICES
from shared.solver.topology.default_spread import with_default_spread
from tests.support.planning.builders import (
    ZONES,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
)
from tests.support.planning.snapshots import plan_for, pods_per_machine

BY_ZONE = (SpreadConstraint(1, keys.ZONE),)
OWNER = Owner("ReplicaSet", "web-1", "uid-web-1")


def test_pods_of_one_controller_are_spread_as_the_cluster_wants() -> None:
    """SCH-85: one machine in each zone, where the pods alone would share one."""
    labels = {"app": "web", "pod-template-hash": "1"}
    snapshot = make_snapshot(*make_pods(3, owner=OWNER, labels=labels), pools=(make_pool(),))
    assert pods_per_machine(plan_for(snapshot)) == [3]
    plan = plan_for(snapshot, default_spread=BY_ZONE)
    zones = {
        value
        for machine in plan.machines
        for rule in machine.requirements
        if rule.key == keys.ZONE
        for value in rule.values
    }
    assert pods_per_machine(plan) == [1, 1, 1]
    assert zones == set(ZONES)


@pytest.mark.parametrize(
    "changes",
    [
        {"spread": (make_spread(keys.HOSTNAME),)},
        {"owner": None},
        {"labels": {}},
        {"labels": {"statefulset.kubernetes.io/pod-name": "web-0"}},
    ],
    ids=["its own", "no controller", "no labels", "a label of its own only"],
)
def test_others_stay_as_they_are(changes: dict[str, Any]) -> None:
    pod = make_pod(**{"owner": OWNER, "labels": {"app": "web"}, **changes})
    assert with_default_spread(pod, BY_ZONE) is pod


def test_labels_of_single_pods_do_not_tell_siblings_apart() -> None:
    """A StatefulSet labels each pod with its name."""
    labels = {"app": "db", "apps.kubernetes.io/pod-index": "3", "controller-revision-hash": "x"}
    (found,) = with_default_spread(make_pod(owner=OWNER, labels=labels), BY_ZONE).spread
    assert found.match_labels == {"app": "db"}


@pytest.mark.parametrize("ignored", [True, False])
def test_pods_that_claim_devices_wait_unless_the_operator_says_otherwise(ignored: bool) -> None:
    """POD-08, IGNORE_DRA_REQUESTS; the others are planned either way."""
    snapshot = make_snapshot(make_pod("gpu", claims_devices=True), make_pod("web"))
    plan = plan_for(snapshot, ignore_device_claims=ignored)
    assert plan.unschedulable == ({"uid-gpu": NO_DEVICES} if ignored else {})
    assert sum(pods_per_machine(plan)) == (1 if ignored else 2)


@pytest.mark.parametrize("kind", ["Job", "DaemonSet", "Node"])
def test_a_controller_whose_selector_kube_scheduler_does_not_take_spreads_nothing(
    kind: str,
) -> None:
    pod = make_pod(owner=Owner(kind, "a", "u"), labels={"app": "a"})
    assert with_default_spread(pod, BY_ZONE) is pod
