"""Which pods need a place before they are evicted (POD-09, POD-10)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from services.scheduler.view import moving_pods, waiting_pods
from shared.domain import labels as keys
from shared.domain.pods import Owner, Pod
from tests.support.builders import (
    make_bound_pod,
    make_machine,
    make_node,
    make_pod,
    make_snapshot,
)

LEAVING = make_machine("m", node_name="n", terminating=True)
STATEFUL = Owner("StatefulSet", "db", "u")


def test_pods_of_a_leaving_machine_are_planned_before_they_wait() -> None:
    """POD-09, INT-22."""
    pods = (make_bound_pod("goes", "n"), make_bound_pod("stays", "other"), make_pod("waits"))
    snapshot = make_snapshot(*pods, machines=(LEAVING,), nodes=(make_node("n"),))
    assert moving_pods(snapshot) == {"uid-goes"}
    assert waiting_pods(snapshot.pods) == [pods[2]]


@pytest.mark.parametrize(("managed", "expected"), [(True, {"uid-p"}), (False, set())])
def test_a_deleted_node_moves_its_pods_only_when_it_is_ours(
    managed: bool, expected: set[str]
) -> None:
    """POD-09: a foreign node's deletion is not our business."""
    labels = {keys.PROVISIONER_NAME: "default"} if managed else {}
    node = make_node("n", terminating=True, labels=labels)
    assert moving_pods(make_snapshot(make_bound_pod("p", "n"), nodes=(node,))) == expected


@pytest.mark.parametrize(
    "pod",
    [
        make_bound_pod("p", "n", owner=Owner("DaemonSet", "d", "u")),
        make_bound_pod("p", "n", owner=Owner("Node", "n", "u")),
        replace(make_bound_pod("p", "n"), phase="Succeeded"),
        make_bound_pod("p", "n", do_not_disrupt="true"),
        make_bound_pod("p", "n", terminating=True),
    ],
    ids=["daemon", "mirror", "finished", "do-not-evict", "leaving"],
)
def test_pods_that_will_not_move_get_no_new_place(pod: Pod) -> None:
    """POD-09, POD-10: no capacity is bought for them."""
    assert moving_pods(make_snapshot(pod, machines=(LEAVING,))) == frozenset()


def test_a_leaving_pod_of_a_stateful_set_moves() -> None:
    """POD-09: active pods, or terminating StatefulSet pods, which come again under the same name."""
    pod = make_bound_pod("p", "n", terminating=True, owner=STATEFUL)
    assert moving_pods(make_snapshot(pod, machines=(LEAVING,))) == {"uid-p"}


def test_an_unlaunched_leaving_machine_has_no_node_and_moves_nothing() -> None:
    """A waiting pod has no node either: an empty name is not a match."""
    machine = replace(LEAVING, node_name="")
    assert moving_pods(make_snapshot(make_pod("waits"), machines=(machine,))) == frozenset()
