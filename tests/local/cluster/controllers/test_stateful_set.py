"""StatefulSets: pods with names and claims of their own, started, stopped and replaced in order."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.local_cluster import LocalCluster, control_plane, pod_template
from tests.support.waiting import wait_until

Obj = dict[str, Any]
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gp3",
        "resources": {"requests": {"storage": "4Gi"}},
    },
}


def stateful_set(cluster: LocalCluster, replicas: int, **spec: Any) -> None:
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": pod_template({"app": "web"}, "100m"),
            **spec,
        },
    }
    cluster.store.create("statefulsets", body, group="apps", namespace="default")


def change(cluster: LocalCluster, **spec: Any) -> None:
    cluster.store.patch("statefulsets", "web", {"spec": spec}, group="apps", namespace="default")


def names(cluster: LocalCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.pods("app=web")]


def events(cluster: LocalCluster, reason: str) -> list[str]:
    found = [e for e in cluster.store.list("events") if e["reason"] == reason]
    return [event["message"].split()[2] for event in found if "StatefulSet" in event["message"]]


def status(cluster: LocalCluster) -> Obj:
    found = cluster.store.get("statefulsets", "web", group="apps", namespace="default")
    return dict(found.get("status") or {})


async def test_pods_start_one_after_another_and_stop_from_the_last_on() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        stateful_set(cluster, 3)
        await cluster.running(3, "app=web")
        assert names(cluster) == ["web-0", "web-1", "web-2"]
        await wait_until(
            lambda: len(events(cluster, "SuccessfulCreate")) == 3, "events are recorded"
        )
        times = [pod["metadata"]["resourceVersion"] for pod in cluster.pods("app=web")]
        assert times == sorted(times, key=int)
        pod = cluster.find_pod("web-1")
        assert pod["spec"]["hostname"] == "web-1"
        assert pod["spec"]["subdomain"] == "web"
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
        await wait_until(lambda: status(cluster).get("availableReplicas") == 3, "the status has it")
        assert status(cluster)["currentRevision"] == status(cluster)["updateRevision"]
        change(cluster, replicas=1)
        await wait_until(lambda: names(cluster) == ["web-0"], "two are gone")
        await wait_until(
            lambda: events(cluster, "SuccessfulDelete") == ["web-2", "web-1"],
            "the last went first",
            show=lambda: events(cluster, "SuccessfulDelete"),
        )


async def test_a_pod_that_does_not_run_holds_up_the_next_but_not_in_parallel() -> None:
    async with control_plane() as cluster:
        stateful_set(cluster, 2)
        await cluster.refused("web-0")
        assert names(cluster) == ["web-0"]
        cluster.store.delete("statefulsets", "web", group="apps", namespace="default")
        await wait_until(lambda: not names(cluster), "its pods are gone")
        stateful_set(cluster, 2, podManagementPolicy="Parallel")
        await wait_until(lambda: names(cluster) == ["web-0", "web-1"], "both are there")


async def test_each_pod_has_a_claim_that_outlives_it() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels={"topology.kubernetes.io/zone": "us-west-2b"})
        storage = {
            "metadata": {"name": "gp3"},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        cluster.store.create("storageclasses", storage, group="storage.k8s.io")
        stateful_set(cluster, 2, volumeClaimTemplates=[CLAIM])
        await cluster.running(2, "app=web")

        def volumes() -> dict[str, str]:
            claims = cluster.store.list("persistentvolumeclaims", namespace="default")
            return {c["metadata"]["name"]: c["spec"].get("volumeName", "") for c in claims}

        before = volumes()
        assert list(before) == ["data-web-0", "data-web-1"]
        assert all(before.values())
        uid = cluster.find_pod("web-1")["metadata"]["uid"]
        cluster.store.delete("pods", "web-1", namespace="default")
        await wait_until(
            lambda: cluster.find_pod("web-1")["metadata"]["uid"] != uid, "another web-1"
        )
        await cluster.running(2, "app=web")
        change(cluster, replicas=0)
        await wait_until(lambda: not names(cluster), "no pod is left")
        assert volumes() == before


async def test_another_template_replaces_the_last_pod_first_down_to_the_partition() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        stateful_set(cluster, 3, updateStrategy=partition)
        await cluster.running(3, "app=web")
        old = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
        change(cluster, template=pod_template({"app": "web"}, "200m"))

        def updated() -> list[str]:
            running = cluster.pods("app=web", phase="Running")
            return [n for n in map(name_of, running) if uid_of(cluster, n) != old[n]]

        await wait_until(lambda: updated() == ["web-1", "web-2"], "two are replaced", show=updated)
        assert events(cluster, "SuccessfulDelete") == ["web-2", "web-1"]
        await wait_until(lambda: status(cluster).get("updatedReplicas") == 2, "the status has it")
        assert status(cluster)["currentRevision"] != status(cluster)["updateRevision"]


def name_of(pod: Obj) -> str:
    return str(pod["metadata"]["name"])


def uid_of(cluster: LocalCluster, name: str) -> str:
    return str(cluster.find_pod(name)["metadata"]["uid"])
