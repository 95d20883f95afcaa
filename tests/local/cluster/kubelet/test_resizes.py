"""Pods that are resized in place: the subresource, what a kubelet makes of it, and what is planned with."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from local.cluster.api.errors import ApiError
from local.cluster.kubelet.resizes import PENDING
from shared.api.core.pods import parse_pod
from tests.support.cluster.local_cluster import LocalCluster, condition, control_plane
from tests.support.waiting import wait_until


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with control_plane() as running:
        running.node("n1", cpu="4")
        yield running


def held(cluster: LocalCluster, name: str) -> dict[str, Any]:
    found = cluster.store.get("pods", name, namespace="default")
    return dict(found)


async def running(cluster: LocalCluster, name: str, cpu: str) -> None:
    cluster.pod(name, cpu=cpu)
    await wait_until(lambda: held(cluster, name)["status"]["phase"] == "Running", f"{name} runs")


def resize(cluster: LocalCluster, name: str, cpu: str, **changes: Any) -> None:
    pod = copy.deepcopy(held(cluster, name))
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    pod["spec"] |= changes
    cluster.store.update("pods", pod, namespace="default", subresource="resize")


def allocated(cluster: LocalCluster, name: str) -> str:
    (status,) = held(cluster, name)["status"]["containerStatuses"]
    assert status["resources"]["requests"] == status["allocatedResources"]
    return str(status["allocatedResources"]["cpu"])


def pending(cluster: LocalCluster, name: str) -> str:
    """The reason why the resize waits; empty when it does not."""
    found = condition(held(cluster, name), PENDING)
    return str(found.get("reason", "")) if found else ""


def planned(cluster: LocalCluster, name: str) -> int:
    """Milli-CPU that the planner counts."""
    return parse_pod(held(cluster, name)).requests["cpu"]


async def test_a_resize_that_fits_is_done(cluster: LocalCluster) -> None:
    await running(cluster, "a", "1")
    generation = held(cluster, "a")["metadata"]["generation"]
    resize(cluster, "a", "3")
    await wait_until(lambda: allocated(cluster, "a") == "3", "the kubelet gives the resources")
    assert held(cluster, "a")["metadata"]["generation"] == generation + 1
    assert (pending(cluster, "a"), planned(cluster, "a")) == ("", 3000)
    resize(cluster, "a", "500m")
    await wait_until(lambda: allocated(cluster, "a") == "500m", "and takes them back")


async def test_one_that_does_not_fit_waits_until_another_pod_leaves(cluster: LocalCluster) -> None:
    """Meanwhile the planner keeps its room."""
    await running(cluster, "a", "1")
    await running(cluster, "b", "2")
    resize(cluster, "a", "3")
    await wait_until(lambda: pending(cluster, "a") == "Deferred", "the resize waits")
    assert (allocated(cluster, "a"), planned(cluster, "a")) == ("1", 3000)
    resize(cluster, "b", "1")
    await wait_until(lambda: allocated(cluster, "a") == "3", "the room that b gave back is taken")
    assert pending(cluster, "a") == ""
    resize(cluster, "a", "4")
    await wait_until(lambda: pending(cluster, "a") == "Deferred", "the next waits")
    cluster.store.delete("pods", "b", namespace="default", grace_seconds=0)
    await wait_until(lambda: allocated(cluster, "a") == "4", "the room of the deleted pod is taken")


async def test_one_that_the_node_can_never_hold_is_infeasible(cluster: LocalCluster) -> None:
    """The planner counts what the pod has."""
    await running(cluster, "a", "1")
    resize(cluster, "a", "5")
    await wait_until(lambda: pending(cluster, "a") == "Infeasible", "the kubelet refuses it")
    assert planned(cluster, "a") == 1000


async def test_nothing_else_can_be_changed(cluster: LocalCluster) -> None:
    await running(cluster, "a", "1")
    with pytest.raises(ApiError, match="only cpu and memory resources are mutable"):
        resize(cluster, "a", "1", nodeName="n2")
    pod = copy.deepcopy(held(cluster, "a"))
    del pod["spec"]["containers"][0]["resources"]
    with pytest.raises(ApiError, match="Pod QOS Class may not change"):
        cluster.store.update("pods", pod, namespace="default", subresource="resize")
    pod["spec"].pop("containers")
    with pytest.raises(ApiError, match=r"spec.containers: Required value"):
        cluster.store.update("pods", pod, namespace="default", subresource="resize")
    assert planned(cluster, "a") == 1000
