"""Claims and volumes: where pods with claims may go, who binds the claims, what becomes of the volumes."""

from __future__ import annotations

from typing import Any

import pytest

from local.cluster.volumes.places import class_allows, reaches
from tests.support.cluster.local_cluster import LocalCluster, control_plane
from tests.support.waiting import wait_until

ZONE = "topology.kubernetes.io/zone"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def storage_class(cluster: LocalCluster, mode: str = "WaitForFirstConsumer", **more: Any) -> None:
    body = {
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": mode,
        **more,
    }
    cluster.store.create("storageclasses", body, group="storage.k8s.io")


def claim(cluster: LocalCluster, name: str = "data", **spec: Any) -> None:
    whole = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gp3",
        "resources": {"requests": {"storage": "4Gi"}},
        **spec,
    }
    body = {"metadata": {"name": name}, "spec": whole}
    cluster.store.create("persistentvolumeclaims", body, namespace="default")


def zones(cluster: LocalCluster, *names: str) -> None:
    for name in names:
        cluster.node(f"in-{name}", labels={ZONE: f"us-west-2{name}"})


def mounting(name: str = "data") -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def stored(cluster: LocalCluster, name: str = "data") -> dict[str, Any]:
    return cluster.store.get("persistentvolumeclaims", name, namespace="default")


def only_in(zone: str) -> list[dict[str, Any]]:
    return [{"matchLabelExpressions": [{"key": EBS_ZONE, "values": [zone]}]}]


async def test_a_claim_waits_for_its_pod_and_is_bound_in_the_pod_s_zone() -> None:
    async with control_plane() as cluster:
        zones(cluster, "a", "b", "c")
        storage_class(cluster, allowedTopologies=only_in("us-west-2b"))
        claim(cluster)
        assert stored(cluster)["status"]["phase"] == "Pending"
        cluster.pod("web", spec=mounting())
        assert await cluster.bound("web") == "in-b"
        bound = stored(cluster)
        assert bound["status"]["phase"] == "Bound"
        assert bound["status"]["capacity"] == {"storage": "4Gi"}
        volume = cluster.store.get("persistentvolumes", bound["spec"]["volumeName"])
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["csi"]["driver"] == "ebs.csi.aws.com"
        assert volume["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["us-west-2b"]


async def test_a_pod_comes_back_to_the_zone_of_its_volume() -> None:
    async with control_plane() as cluster:
        zones(cluster, "a")
        storage_class(cluster)
        claim(cluster)
        cluster.pod("first", spec=mounting())
        assert await cluster.bound("first") == "in-a"
        cluster.store.delete("pods", "first", namespace="default", grace_seconds=0)
        cluster.store.delete("nodes", "in-a")
        zones(cluster, "b")
        cluster.pod("second", spec=mounting())
        text = "0/1 nodes are available: 1 node(s) had volume node affinity conflict. preemption: "
        await cluster.refused("second", text)
        zones(cluster, "a")
        assert await cluster.bound("second") == "in-a"


async def test_a_class_that_fits_no_node_is_reported() -> None:
    async with control_plane() as cluster:
        zones(cluster, "a")
        storage_class(cluster, allowedTopologies=only_in("us-west-2b"))
        claim(cluster)
        cluster.pod("web", spec=mounting())
        await cluster.refused("web", "1 node(s) didn't find available persistent volumes to bind")


@pytest.mark.slow
async def test_a_claim_that_is_not_there_or_not_bound_holds_its_pod_back() -> None:
    async with control_plane() as cluster:
        zones(cluster, "a")
        cluster.pod("web", spec=mounting())
        text = '0/1 nodes are available: persistentvolumeclaim "data" not found. preemption: '
        await cluster.refused("web", text)
        claim(cluster, storageClassName="")
        await cluster.refused("web", "pod has unbound immediate PersistentVolumeClaims")
        volume = {
            "metadata": {"name": "by-hand"},
            "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"]},
        }
        cluster.store.create("persistentvolumes", volume)
        assert await cluster.bound("web") == "in-a"
        assert stored(cluster)["spec"]["volumeName"] == "by-hand"


async def test_an_immediate_class_binds_before_any_pod() -> None:
    async with control_plane() as cluster:
        zones(cluster, "a", "b")
        storage_class(cluster, "Immediate")
        claim(cluster)
        await wait_until(lambda: stored(cluster)["status"]["phase"] == "Bound", "it is bound")


@pytest.mark.parametrize(("policy", "left"), [("Delete", []), ("Retain", ["Released"])])
async def test_a_volume_is_deleted_with_its_claim_if_its_policy_is_delete(
    policy: str, left: list[str]
) -> None:
    async with control_plane() as cluster:
        zones(cluster, "a")
        storage_class(cluster, "Immediate", reclaimPolicy=policy)
        claim(cluster)
        await wait_until(lambda: stored(cluster)["status"]["phase"] == "Bound", "it is bound")
        cluster.store.delete("persistentvolumeclaims", "data", namespace="default")
        await wait_until(
            lambda: [v["status"]["phase"] for v in cluster.store.list("persistentvolumes")] == left,
            "the volume is settled",
        )


@pytest.mark.parametrize("key", [ZONE, EBS_ZONE, "failure-domain.beta.kubernetes.io/zone"])
def test_a_zone_may_be_said_in_three_ways(key: str) -> None:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}
    volume = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}
    topology = {"allowedTopologies": [{"matchLabelExpressions": [{"key": key, "values": ["a"]}]}]}
    for zone, expected in (("a", True), ("b", False)):
        assert reaches(volume)({ZONE: zone}, "n") is expected
        assert class_allows(topology, {ZONE: zone}) is expected
    assert reaches({"spec": {}})({}, "n")
    assert class_allows({}, {})
