"""Deployments and ReplicaSets: numbers, rollouts and what `kubectl rollout status` reads."""

from __future__ import annotations

from typing import Any

from local.cluster.controllers.pod_templates import template_hash
from tests.support.cluster.local_cluster import LocalCluster, condition, control_plane, pod_template
from tests.support.waiting import wait_until

COST = "controller.kubernetes.io/pod-deletion-cost"


def deployment(cluster: LocalCluster) -> dict[str, Any]:
    return cluster.store.get("deployments", "web", group="apps", namespace="default")


def scale(cluster: LocalCluster, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    cluster.store.patch("deployments", "web", body, group="apps", namespace="default")


def rolled_out(cluster: LocalCluster) -> bool:
    """kubectl's DeploymentStatusViewer."""
    found = deployment(cluster)
    status, replicas = found.get("status", {}), found["spec"]["replicas"]
    return bool(
        status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        and status["updatedReplicas"] == status["replicas"] == replicas
        and status["availableReplicas"] == replicas
    )


async def test_a_rollout_ends_with_the_conditions_kubectl_waits_for() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.deployment("web", 3)
        await wait_until(lambda: rolled_out(cluster), "the rollout ends")
        found = deployment(cluster)
        assert condition(found, "Available")["status"] == "True"
        await wait_until(
            lambda: (
                condition(deployment(cluster), "Progressing")["reason"] == "NewReplicaSetAvailable"
            ),
            "progress is complete",
        )
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


async def test_scaling_down_deletes_pods_that_do_not_run_first() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", cpu="300m")
        cluster.deployment("web", 6)
        await wait_until(lambda: len(cluster.pods(phase="Running")) == 3, "three pods run")
        running = {p["metadata"]["name"] for p in cluster.pods(phase="Running")}
        scale(cluster, 3)
        await wait_until(lambda: len(cluster.pods()) == 3, "three pods are left")
        assert {p["metadata"]["name"] for p in cluster.pods()} == running


async def test_scaling_down_honours_the_deletion_cost() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.deployment("web", 4)
        await cluster.running(4)
        cheap = cluster.pods()[2]["metadata"]["name"]
        body = {"metadata": {"annotations": {COST: "-5"}}}
        cluster.store.patch("pods", cheap, body, namespace="default")
        scale(cluster, 3)
        await wait_until(lambda: len(cluster.pods()) == 3, "one pod went")
        assert cheap not in {p["metadata"]["name"] for p in cluster.pods()}


async def test_a_deleted_pod_is_replaced() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.deployment("web", 2)
        await cluster.running(2)
        gone = cluster.pods()[0]["metadata"]
        cluster.store.delete("pods", gone["name"], namespace="default")
        await wait_until(
            lambda: cluster.store.find("pods", gone["name"], namespace="default") is None,
            "the kubelet finished the pod",
        )
        await cluster.running(2)


async def test_a_new_template_replaces_all_pods_within_the_limits() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", cpu="32")
        limits = {"maxSurge": 1, "maxUnavailable": 0}
        strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
        cluster.deployment("web", 5, spec={"strategy": strategy})
        await wait_until(lambda: rolled_out(cluster), "the first rollout ends")
        before = {p["metadata"]["name"] for p in cluster.pods()}
        template = pod_template({"app": "web", "version": "2"}, "200m")
        body = {"spec": {"template": template}}
        cluster.store.patch("deployments", "web", body, group="apps", namespace="default")
        seen: list[tuple[int, int]] = []

        def done() -> bool:
            seen.append((len(cluster.pods(phase="Running")), len(cluster.pods())))
            return rolled_out(cluster) and len(cluster.pods("version=2")) == 5

        await wait_until(
            done, "the second rollout ends", show=lambda: deployment(cluster)["status"]
        )
        assert not before & {p["metadata"]["name"] for p in cluster.pods()}
        assert min(running for running, _ in seen) >= 5
        assert max(total for _, total in seen) <= 6
        annotations = deployment(cluster)["metadata"]["annotations"]
        assert annotations["deployment.kubernetes.io/revision"] == "2"


def test_a_template_that_only_gained_empty_parts_is_the_same() -> None:
    """`kubectl rollout undo` sends the old template back with nulls in it."""
    template = pod_template({"app": "web"}, "100m")
    padded = {**template, "metadata": {**template["metadata"], "creationTimestamp": None}}
    assert template_hash(padded) == template_hash(template)
    assert template_hash(pod_template({"app": "web"}, "200m")) != template_hash(template)


async def test_recreate_ends_all_old_pods_first() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.deployment("web", 3, spec={"strategy": {"type": "Recreate"}})
        await cluster.running(3)
        body = {"spec": {"template": pod_template({"app": "web", "version": "2"}, "200m")}}
        cluster.store.patch("deployments", "web", body, group="apps", namespace="default")
        mixed: list[bool] = []

        def done() -> bool:
            new, every = cluster.pods("version=2"), cluster.pods()
            mixed.append(bool(new) and len(new) != len(every))
            return len(new) == 3 and rolled_out(cluster)

        await wait_until(done, "the new pods run", show=lambda: deployment(cluster)["status"])
        assert not any(mixed)


async def test_four_hundred_pods_go_away_when_scaled_to_zero() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", cpu="64", pods="500")
        cluster.deployment("web", 400)
        await cluster.running(400)
        scale(cluster, 0)
        await wait_until(
            lambda: not cluster.store.list("pods", namespace="default"), "no pod is left"
        )
