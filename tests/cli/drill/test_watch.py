"""Watching a drill: when a node is empty, who stayed and why, and what was bought."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.drill import watch
from cli.drill.cluster_state import ClusterState, Target
from cli.stack.cluster import connected
from local.cluster.storage.store import Store
from shared.domain import labels as keys
from shared.kube.client import Kube
from shared.kube.resources import EVENTS
from tests.services.conftest import CLASS_REF, store_with_our_kinds
from tests.support.cluster.fixture import embedded_api_server, write_kubeconfig
from tests.support.cluster.local_cluster import LocalCluster

CLAIM: dict[str, Any] = {"spec": {"requirements": [], "nodeClassRef": CLASS_REF}}
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "rs",
    "controller": True,
}


@pytest.fixture
def store() -> Store:
    """A node of ours that runs two pods of one owner."""
    made = store_with_our_kinds()
    cluster = LocalCluster(made)
    values = {keys.NODE_POOL: "default", keys.CAPACITY_TYPE: "spot"}
    cluster.node("old", labels=values)
    made.patch("nodes", "old", {"spec": {"providerID": "aws:///us-east-1a/i-1"}})
    run(made, "old", "web-0", "web-1")
    return made


def run(store: Store, node: str, *names: str) -> None:
    """Pods of the owner on this node; an empty name is none."""
    for name in names:
        LocalCluster(store).pod(name, spec={"nodeName": node} if node else {}, owners=[OWNER])


def end(store: Store, *names: str) -> None:
    for name in names:
        store.delete("pods", name, namespace="default", grace_seconds=0)


@pytest.fixture
async def kube(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Kube]:
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(watch, "PODS_RECREATED_SECONDS", 0.0)
    with embedded_api_server(store=store) as url:
        path = write_kubeconfig(tmp_path / "kubeconfig", url)
        async with connected(str(path), command="test") as client:
            yield client


async def before(kube: Kube) -> tuple[ClusterState, list[Target]]:
    """The cluster as the drill read it, and its one node."""
    cluster = await ClusterState.read(kube)
    targets = cluster.targets()
    assert [target.node.name for target in targets] == ["old"]
    return cluster, targets


async def test_pods_that_run_elsewhere_have_moved_and_their_machine_was_bought(
    kube: Kube, store: Store
) -> None:
    cluster, targets = await before(kube)
    end(store, "web-0", "web-1")
    run(store, "new", "web-2", "web-3")
    for name, node in (("bought", "new"), ("for-another", "other")):
        store.create("nodeclaims", {"metadata": {"name": name}, **CLAIM}, group="karpenter.sh")
        status = {"status": {"nodeName": node}}
        store.patch("nodeclaims", name, status, group="karpenter.sh", subresource="status")
    report = await watch.watch(kube, cluster, targets)
    assert (report["moved"], report["stayed"], report["blocked"]) == (2, [], [])
    assert report["machines"] == ["bought"]
    assert report["placedAfterSeconds"] < 60
    assert report["spareSeconds"] > 60


async def test_who_stays_until_the_end_is_named_with_the_reason(
    kube: Kube, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "NOTICE_SECONDS", 0.05)
    cluster, targets = await before(kube)
    end(store, "web-0")
    await event(kube, "held", "pod default/web-1 stays: it has the annotation x", "old")
    await event(kube, "foreign", "pod default/b stays: why", "another")
    report = await watch.watch(kube, cluster, targets)
    assert (report["moved"], report["stayed"]) == (1, ["default/web-1"])
    assert report["blocked"] == [{"pod": "default/web-1", "why": "it has the annotation x"}]
    assert (report["placedAfterSeconds"], report["spareSeconds"]) == (None, None)


async def test_a_pod_without_a_node_is_waited_for(
    kube: Kube, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is empty, but its pod has no other place: nothing is placed when the time is over."""
    monkeypatch.setattr(watch, "NOTICE_SECONDS", 0.1)
    cluster, targets = await before(kube)
    end(store, "web-0", "web-1")
    run(store, "", "web-2")
    report = await watch.watch(kube, cluster, targets)
    assert report["stayed"] == []
    assert report["placedAfterSeconds"] is None


def test_a_node_is_empty_from_the_first_time_that_none_of_its_pods_is_left() -> None:
    left, emptied = {"a": {"1", "2"}, "b": {"3"}}, dict[str, float]()
    here = [{"metadata": {"uid": "2"}}]
    watch._record_left(left, here, emptied, 1.0)
    assert (left, emptied) == ({"a": {"2"}, "b": set()}, {"b": 1.0})
    watch._record_left(left, [], emptied, 2.0)
    assert emptied == {"b": 1.0, "a": 2.0}


async def event(kube: Kube, name: str, message: str, node: str) -> None:
    about = {"kind": "Node", "name": node}
    body = {"reason": watch.BLOCKED_REASON, "message": message, "involvedObject": about}
    await kube.create(EVENTS, {"metadata": {"name": name}, **body}, "default")
