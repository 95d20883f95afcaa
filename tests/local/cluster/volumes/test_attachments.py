"""Volumes are attached to the nodes of the pods that mount them: what shows it, what waits for it, how many fit."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.local_cluster import LocalCluster, control_plane
from tests.support.waiting import wait_until

Obj = dict[str, Any]
STORAGE = "storage.k8s.io"
EBS = "ebs.csi.aws.com"
ZONE = {"topology.kubernetes.io/zone": "us-west-2a"}


def storage_class(cluster: LocalCluster, driver: str = EBS) -> None:
    body = {
        "metadata": {"name": "disk"},
        "provisioner": driver,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    cluster.store.create("storageclasses", body, group=STORAGE)


def claim_spec(mode: str = "ReadWriteOnce") -> Obj:
    requests = {"requests": {"storage": "4Gi"}}
    return {"accessModes": [mode], "storageClassName": "disk", "resources": requests}


def claim(cluster: LocalCluster, name: str, mode: str = "ReadWriteOnce") -> None:
    body = {"metadata": {"name": name}, "spec": claim_spec(mode)}
    cluster.store.create("persistentvolumeclaims", body, namespace="default")


def mounting(name: str, node: str = "") -> Obj:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    return {
        "volumes": volumes,
        **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
    }


def attachments(cluster: LocalCluster) -> dict[str, str]:
    """PersistentVolume -> node, of what is attached."""
    return {
        one["spec"]["source"]["persistentVolumeName"]: one["spec"]["nodeName"]
        for one in cluster.store.list("volumeattachments", group=STORAGE)
        if (one.get("status") or {}).get("attached")
    }


def volume_of(cluster: LocalCluster, name: str) -> str:
    found = cluster.store.get("persistentvolumeclaims", name, namespace="default")
    return str(found["spec"].get("volumeName", ""))


async def attached_to(cluster: LocalCluster, nodes: list[str]) -> None:
    await wait_until(
        lambda: sorted(attachments(cluster).values()) == nodes,
        f"attached to {nodes}",
        show=lambda: attachments(cluster),
    )


async def test_a_volume_is_attached_while_a_pod_of_the_node_mounts_it() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        storage_class(cluster)
        claim(cluster, "data")
        cluster.pod("web", spec=mounting("data"))
        await cluster.running(1)
        (one,) = cluster.store.list("volumeattachments", group=STORAGE)
        assert one["spec"]["attacher"] == EBS
        assert attachments(cluster) == {volume_of(cluster, "data"): "n1"}
        cluster.store.delete("pods", "web", namespace="default")
        await attached_to(cluster, [])


async def test_a_pod_that_ended_lets_its_volume_go() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        storage_class(cluster)
        claim(cluster, "data")
        cluster.pod(
            "job", spec=mounting("data"), annotations={"local.dovetail.sh/run-seconds": "0.1"}
        )
        await wait_until(
            lambda: cluster.find_pod("job")["status"].get("phase") == "Succeeded", "it ends"
        )
        await attached_to(cluster, [])


async def test_a_pod_waits_until_another_node_has_let_its_volume_go() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        storage_class(cluster)
        claim(cluster, "data")
        cluster.pod("first", spec=mounting("data"))
        await cluster.running(1)
        cluster.node("n2", labels=ZONE)
        cluster.pod("second", spec=mounting("data", "n2"))
        await cluster.bound("second")

        def shown() -> list[str]:
            return [
                event["message"]
                for event in cluster.store.list("events")
                if event["reason"] == "FailedAttachVolume"
            ]

        await wait_until(shown, "the pod has its Event")
        assert shown()[0].startswith("Multi-Attach error for volume")
        assert cluster.find_pod("second")["status"]["phase"] == "Pending"
        cluster.store.delete("pods", "first", namespace="default")
        await cluster.running(1)
        await attached_to(cluster, ["n2"])


async def test_a_volume_for_many_nodes_is_attached_to_many() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        cluster.node("n2", labels=ZONE)
        storage_class(cluster)
        claim(cluster, "data", "ReadWriteMany")
        for node in ("n1", "n2"):
            cluster.pod(f"on-{node}", spec=mounting("data", node))
        await cluster.running(2)
        found = cluster.store.list("volumeattachments", group=STORAGE)
        assert sorted(one["spec"]["nodeName"] for one in found) == ["n1", "n2"]


async def test_nothing_is_attached_for_a_driver_that_attaches_nothing() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        driver = {"metadata": {"name": "efs.csi.aws.com"}, "spec": {"attachRequired": False}}
        cluster.store.create("csidrivers", driver, group=STORAGE)
        storage_class(cluster, "efs.csi.aws.com")
        claim(cluster, "files")
        cluster.pod("web", spec=mounting("files"))
        await cluster.running(1)
        assert cluster.store.list("volumeattachments", group=STORAGE) == []


async def test_a_node_takes_no_more_volumes_than_it_attaches() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        drivers = [{"name": EBS, "nodeID": "i-1", "allocatable": {"count": 2}}]
        limit = {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}
        cluster.store.create("csinodes", limit, group=STORAGE)
        storage_class(cluster)
        for name in ("a", "b", "c"):
            claim(cluster, name)
        for name in ("a", "b"):
            cluster.pod(name, spec=mounting(name))
        await cluster.running(2)
        cluster.pod("also-a", spec=mounting("a"))
        await cluster.running(3)
        cluster.pod("c", spec=mounting("c"))
        await cluster.refused("c", "1 node(s) exceed max volume count")
        cluster.store.delete("pods", "b", namespace="default")
        assert await cluster.bound("c") == "n1"


async def test_a_pod_that_mounts_too_many_itself_goes_nowhere() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        drivers = [{"name": EBS, "nodeID": "i-1", "allocatable": {"count": 1}}]
        limit = {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}
        cluster.store.create("csinodes", limit, group=STORAGE)
        storage_class(cluster)
        for name in ("a", "b"):
            claim(cluster, name)
        both = [*mounting("a")["volumes"], *mounting("b")["volumes"]]
        volumes = [{**one, "name": f"v{number}"} for number, one in enumerate(both)]
        cluster.pod("p", spec={"volumes": volumes})
        await cluster.refused("p", "1 node(s) exceed max volume count")


async def test_an_ephemeral_volume_is_made_for_its_pod_and_goes_with_it() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels=ZONE)
        storage_class(cluster)
        template = {"metadata": {"labels": {"kind": "scratch"}}, "spec": claim_spec()}
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
        cluster.deployment("web", 2, pod_spec={"volumes": [volume]})
        await cluster.running(2)
        names = sorted(f"{pod['metadata']['name']}-scratch" for pod in cluster.pods())
        claims = cluster.store.list("persistentvolumeclaims", namespace="default")
        assert sorted(one["metadata"]["name"] for one in claims) == names
        assert {one["metadata"]["labels"]["kind"] for one in claims} == {"scratch"}
        await attached_to(cluster, ["n1", "n1"])
        body = {"spec": {"replicas": 0}}
        cluster.store.patch("deployments", "web", body, group="apps", namespace="default")
        await wait_until(
            lambda: not cluster.store.list("persistentvolumeclaims", namespace="default"),
            "the claims are gone",
        )
        await wait_until(
            lambda: not cluster.store.list("persistentvolumes"), "the volumes are gone"
        )


async def test_a_claim_of_somebody_else_is_not_taken_for_an_ephemeral_volume() -> None:
    async with control_plane() as cluster:
        storage_class(cluster)
        claim(cluster, "web-scratch")
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec()}}}
        cluster.pod("web", spec={"volumes": [volume]})

        def shown() -> list[str]:
            return [
                event["message"]
                for event in cluster.store.list("events")
                if event["reason"] == "EphemeralVolumeConflict"
            ]

        await wait_until(shown, "the pod has its Event")
        assert shown() == ['PVC "default/web-scratch" was not created for pod "default/web"']
