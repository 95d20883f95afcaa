"""Which pods need a place before they are evicted (POD-09, POD-10)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from services.scheduler.state.cluster import View, waiting_pods
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.records import CLAIMS, CSI_NODES, NAMESPACES, STORAGE_CLASSES, VOLUMES
from shared.domain.snapshot import moving_pods
from shared.domain.workloads.namespaces import Namespace
from shared.domain.workloads.pods import Owner, Pod
from shared.redis.mirror import MirrorReader
from tests.support.planning.builders import (
    make_bound_pod,
    make_catalogue,
    make_machine,
    make_node,
    make_pod,
    make_snapshot,
)
from tests.support.planning.volumes import (
    make_claim,
    make_csi_node,
    make_storage_class,
    make_volume,
)

LEAVING = make_machine("m", node_name="n", terminating=True)
STATEFUL = Owner("StatefulSet", "db", "u")


def test_pods_of_a_leaving_machine_are_planned_before_they_wait() -> None:
    """POD-09: pods of nodes that go; INT-22: the replacement is bought during the drain."""
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


def test_what_pods_need_to_find_their_volumes_and_each_other_is_in_the_snapshot() -> None:
    """SCH-83, SCH-91, SCH-93; in a fixed order, whatever the mirror's."""
    claims = (make_claim("a"), make_claim("b", namespace="x"), make_claim("b", namespace="y"))
    others: dict[str, Any] = {
        VOLUMES: make_volume("v"),
        STORAGE_CLASSES: make_storage_class("s"),
        CSI_NODES: make_csi_node("n"),
        NAMESPACES: Namespace("u", "red", {"team": "red"}),
    }
    kinds: dict[str, Any] = {
        kind: {one.name: msgspec.json.encode(one)} for kind, one in others.items()
    }
    kinds[CLAIMS] = {claim.key: msgspec.json.encode(claim) for claim in reversed(claims)}
    reader = MirrorReader("redis://nowhere.invalid", "test", clock=SystemClock())
    reader.kinds = kinds
    snapshot = View(reader).snapshot(make_catalogue(), frozenset())
    assert snapshot.claims == claims
    assert snapshot.volumes == (others[VOLUMES],)
    assert snapshot.storage_classes == (others[STORAGE_CLASSES],)
    assert snapshot.csi_nodes == (others[CSI_NODES],)
    assert snapshot.namespaces == (others[NAMESPACES],)
