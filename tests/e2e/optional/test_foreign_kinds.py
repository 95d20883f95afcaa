"""Kinds that other projects define, on a whole stack: gangs by scheduler-plugins' PodGroup and by Kueue's labels, sizes
by a VerticalPodAutoscaler.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from cli.operations.scheduler_status import ask
from local.stack import Stack
from shared.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    POD_GROUPS,
    PODS,
    VERTICAL_AUTOSCALERS,
)
from tests.services.watcher.conftest import definition
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import (
    NAMESPACE,
    SERVICE_SETTINGS,
    Playground,
    ShellKubectl,
    playground_on,
    running_stack,
    until,
)
from tests.support.stories.scale_down import Pool, family, instance_type, name_of, passes

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]
GATES = SERVICE_SETTINGS["FEATURE_GATES"] + ",PodGroup=true,VerticalPodAutoscaler=true"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory, FEATURE_GATES=GATES) as stack:
        yield stack


@pytest.fixture
async def ground(stack: Stack) -> AsyncIterator[Playground]:
    """With the definitions, which nobody has installed before. The watcher looks for them every half minute."""
    async with playground_on(stack) as ground:
        served = {
            one["metadata"]["name"]
            for one in (await ground.kube.list(CUSTOM_RESOURCE_DEFINITIONS)).items
        }
        for resource in (POD_GROUPS, VERTICAL_AUTOSCALERS):
            if f"{resource.plural}.{resource.group}" not in served:
                await ground.kube.create(CUSTOM_RESOURCE_DEFINITIONS, definition(resource))
        url = ground.environment.services["watcher"] + "/status"

        async def watched() -> bool:
            return not (await asyncio.to_thread(ask, url))["notes"]

        await until(watched, "the watcher has every kind that its gates name")
        yield ground


async def pool_of(ground: Playground, name: str, kind: str) -> Pool:
    pool = Pool(ground, ShellKubectl(ground.stack), "NodePool", name)
    await pool.apply_class()
    await pool.apply(family(kind), disruption={"consolidateAfter": "Never"})
    return pool


def member(pool: str, number: int, **metadata: Any) -> dict[str, Any]:
    """A pod that leaves room for no other on a machine of two vCPU."""
    container = {"name": "app", "image": "pause", "resources": {"requests": {"cpu": "1500m"}}}
    return {
        "metadata": {"name": f"{pool}-{number}", **metadata},
        "spec": {
            "nodeSelector": {"karpenter.sh/nodepool": pool},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


async def phases(ground: Playground, pool: str) -> list[str]:
    listed = (await ground.kube.list(PODS, NAMESPACE)).items
    own = [pod for pod in listed if name_of(pod).startswith(f"{pool}-")]
    return [(pod.get("status") or {}).get("phase", "") for pod in own]


@pytest.mark.parametrize(
    ("pool", "metadata", "size"),
    [
        ("train", {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}, 3),
        (
            "batch",
            {
                "labels": {"kueue.x-k8s.io/pod-group-name": "batch"},
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
            },
            3,
        ),
    ],
)
async def test_a_gang_waits_for_its_last_pod(
    ground: Playground, pool: str, metadata: dict[str, Any], size: int
) -> None:
    """SCH-114, SCH-115: two of three buy nothing, for as long as it takes; the third brings machines for all."""
    own = await pool_of(ground, pool, "m6i")
    group = {"metadata": {"name": pool}, "spec": {"minMember": size}}
    await ground.create(POD_GROUPS, group)
    for number in range(size - 1):
        await ground.create(PODS, member(pool, number, **metadata))
    await passes(ground, 4)
    assert await own.machines() == []
    await ground.create(PODS, member(pool, size, **metadata))

    async def all_run() -> bool:
        return await phases(ground, pool) == ["Running"] * size

    await until(all_run, "the whole gang runs")
    await ground.kube.delete(POD_GROUPS, pool, NAMESPACE)


async def test_a_pod_that_moves_gets_the_size_that_vpa_will_write(ground: Playground) -> None:
    """A drifted node is replaced by one with room for what is recommended, not for what the pod requests."""
    pool = await pool_of(ground, "web", "m6i")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await ground.create(
        VERTICAL_AUTOSCALERS,
        {
            "metadata": {"name": "web"},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Recreate"}},
            "status": {
                "recommendation": {
                    "containerRecommendations": [
                        {"containerName": "app", "target": {"cpu": "3", "memory": "4Gi"}}
                    ]
                }
            },
        },
    )
    await pool.run(1)
    (first,) = await pool.serving(1)
    assert instance_type(first) == "m6i.large", "a pod that waits already has the size that it has"
    await pool.change(template={"metadata": {"labels": {"generation": "second"}}})

    async def replaced() -> str:
        found = [node for node in await pool.nodes() if name_of(node) != name_of(first)]
        return instance_type(found[0]) if found else ""

    assert await until(replaced, "a new node") == "m6i.xlarge"
    await ground.kube.delete(VERTICAL_AUTOSCALERS, "web", NAMESPACE)
