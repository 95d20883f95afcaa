"""PodDisruptionBudget numbers (kube-controller-manager's disruption.go) and evictions against them."""

from __future__ import annotations

from typing import Any

import pytest

from local.cluster.api.errors import ApiError
from tests.support.cluster.local_cluster import LocalCluster, condition, control_plane
from tests.support.waiting import wait_until

NUMBERS = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")


def create(cluster: LocalCluster, **limits: Any) -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **limits}
    body = {"metadata": {"name": "web"}, "spec": spec}
    cluster.store.create("poddisruptionbudgets", body, group="policy", namespace="default")


def budget(cluster: LocalCluster) -> dict[str, Any]:
    return cluster.store.get("poddisruptionbudgets", "web", group="policy", namespace="default")


def numbers(cluster: LocalCluster) -> tuple[int, ...]:
    return tuple(budget(cluster)["status"][name] for name in NUMBERS)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"minAvailable": 3}, (5, 3, 2, 5)),
        ({"minAvailable": "50%"}, (5, 3, 2, 5)),
        ({"minAvailable": "100%"}, (5, 5, 0, 5)),
        ({"maxUnavailable": 1}, (5, 4, 1, 5)),
        ({"maxUnavailable": "30%"}, (5, 3, 2, 5)),
        ({"maxUnavailable": 0}, (5, 5, 0, 5)),
    ],
    ids=str,
)
async def test_numbers(limits: dict[str, Any], expected: tuple[int, ...]) -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        create(cluster, **limits)
        cluster.deployment("web", 5)
        await wait_until(
            lambda: numbers(cluster) == expected,
            "the status settles",
            show=lambda: budget(cluster)["status"],
        )
        found = budget(cluster)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        allowed = condition(found, "DisruptionAllowed")["status"]
        assert allowed == ("True" if expected[2] else "False")


async def test_pods_without_a_controller_fail_a_percentage() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.pod("bare", labels={"app": "web"})
        create(cluster, maxUnavailable=1)
        await wait_until(
            lambda: condition(budget(cluster), "DisruptionAllowed")["reason"] == "SyncFailed",
            "the budget reports the failure",
        )
        assert numbers(cluster) == (0, 0, 0, 0)


async def test_an_eviction_uses_up_the_budget_until_the_pod_is_replaced() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        create(cluster, maxUnavailable=1)
        cluster.deployment("web", 3)
        await wait_until(lambda: numbers(cluster) == (3, 2, 1, 3), "one disruption is allowed")
        first, second, _ = (p["metadata"]["name"] for p in cluster.pods())
        cluster.store.evict(first, "default")
        with pytest.raises(ApiError) as refused:
            cluster.store.evict(second, "default")
        assert refused.value.code == 429
        await cluster.running(3)
        await wait_until(lambda: numbers(cluster) == (3, 2, 1, 3), "the budget recovers")
