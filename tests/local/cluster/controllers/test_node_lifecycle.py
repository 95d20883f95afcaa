"""Node state becomes taints; NoExecute taints and deleted nodes end pods."""

from __future__ import annotations

from tests.support.cluster.local_cluster import LocalCluster, control_plane
from tests.support.waiting import wait_until


def taints(cluster: LocalCluster, name: str) -> set[tuple[str, str]]:
    found = cluster.store.get("nodes", name)["spec"].get("taints") or []
    return {(taint["key"], taint["effect"]) for taint in found}


async def test_a_cordon_shows_as_taint_and_goes_with_it() -> None:
    cordon = ("node.kubernetes.io/unschedulable", "NoSchedule")
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.store.patch("nodes", "n1", {"spec": {"unschedulable": True}})
        await wait_until(lambda: taints(cluster, "n1") == {cordon}, "the taint is set")
        cluster.store.patch("nodes", "n1", {"spec": {"unschedulable": None}})
        await wait_until(lambda: not taints(cluster, "n1"), "the taint is gone")


async def test_a_no_execute_taint_drives_off_pods_that_do_not_tolerate_it() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.pod("plain")
        cluster.pod("tough", spec={"tolerations": [{"key": "out", "operator": "Exists"}]})
        await cluster.bound("plain")
        await cluster.bound("tough")
        taint = {"key": "out", "effect": "NoExecute"}
        cluster.store.patch("nodes", "n1", {"spec": {"taints": [taint]}})
        await wait_until(
            lambda: cluster.store.find("pods", "plain", namespace="default") is None, "plain left"
        )
        assert cluster.node_of("tough") == "n1"


async def test_pods_of_a_deleted_node_are_deleted() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.pod("p")
        await cluster.bound("p")
        cluster.store.delete("nodes", "n1")
        await wait_until(
            lambda: cluster.store.find("pods", "p", namespace="default") is None, "it is collected"
        )
