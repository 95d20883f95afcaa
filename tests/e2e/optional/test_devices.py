"""Pods that claim GPUs get machines with them, on the local stack with a DRA driver (DRA-01, POD-08)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cli.demo import workload
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.errors import NotFound
from shared.kube.resources import (
    CLAIM_TEMPLATES,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from tests.support.stories.playground import NAMESPACE, Playground, until

pytestmark = pytest.mark.e2e
GPU = "gpu.nvidia.com"
L4 = f'device.attributes["{GPU}"].productName == "NVIDIA L4"'
REQUEST = {
    "name": "gpu",
    "exactly": {"deviceClassName": GPU, "selectors": [{"cel": {"expression": L4}}]},
}
OF_POOL = (
    {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]},
    {"key": keys.ARCH, "operator": "In", "values": ["amd64"]},
    {"key": keys.AWS_PREFIX + "instance-category", "operator": "In", "values": ["g", "m"]},
)


@pytest.fixture
async def devices(playground: Playground) -> AsyncIterator[Playground]:
    """A device class, a template of one GPU of a product, and a pool with GPUs and without."""
    kube = playground.kube
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    await kube.create(
        DEVICE_CLASSES, {"metadata": {"name": GPU}, "spec": {"selectors": [selector]}}
    )
    template = {
        "metadata": {"name": "l4"},
        "spec": {"spec": {"devices": {"requests": [REQUEST]}}},
    }
    await kube.create(CLAIM_TEMPLATES, template, NAMESPACE)
    changes = {"template": {"spec": {"requirements": list(OF_POOL)}}}
    await workload.apply_pool(kube, playground.environment.cluster_name, 1, V1, changes=changes)
    yield playground
    for resource, name, namespace in (
        (DEVICE_CLASSES, GPU, None),
        (CLAIM_TEMPLATES, "l4", NAMESPACE),
    ):
        with contextlib.suppress(NotFound):
            await kube.delete(resource, name, namespace)


def inference(replicas: int) -> dict[str, Any]:
    """Pods that each claim one GPU."""
    container = {
        "name": "model",
        "image": "model",
        "resources": {"requests": {"cpu": "500m"}, "claims": [{"name": "gpu"}]},
    }
    claim = {"name": "gpu", "resourceClaimTemplateName": "l4"}
    return {
        "metadata": {"name": "inference"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "inference"}},
            "template": {
                "metadata": {"labels": {"app": "inference"}},
                "spec": {"resourceClaims": [claim], "containers": [container]},
            },
        },
    }


async def test_each_pod_has_a_gpu_of_its_product_and_the_nodes_go_with_the_pods(
    devices: Playground,
) -> None:
    """The devices are counted before their drivers publish them, and nothing is bought twice while they wait."""
    kube = devices.kube
    await kube.create(DEPLOYMENTS, inference(3), NAMESPACE)

    async def running() -> bool:
        pods = (await kube.list(PODS, NAMESPACE, label_selector="app=inference")).items
        return [(pod.get("status") or {}).get("phase") for pod in pods] == ["Running"] * 3

    await until(running, "three pods run")
    nodes = (await kube.list(NODES, label_selector=keys.NODE_POOL)).items
    gpus = {node["metadata"]["labels"][keys.AWS_PREFIX + "instance-gpu-name"] for node in nodes}
    assert gpus == {"l4"}
    slices = (await kube.list(RESOURCE_SLICES)).items
    assert {one["spec"]["nodeName"] for one in slices} == {n["metadata"]["name"] for n in nodes}
    claims = (await kube.list(RESOURCE_CLAIMS, NAMESPACE)).items
    held = [
        (one["pool"], one["device"])
        for claim in claims
        for one in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(held) == len(set(held)) == 3
    now = await devices.look()
    assert len(now.live_instances) == len(nodes)
    await kube.delete(DEPLOYMENTS, "inference", NAMESPACE)

    async def nothing_is_left() -> bool:
        left = [*(await kube.list(RESOURCE_SLICES)).items]
        left += (await kube.list(RESOURCE_CLAIMS, NAMESPACE)).items
        left += (await kube.list(NODES, label_selector=keys.NODE_POOL)).items
        return not left

    await until(nothing_is_left, "nodes, slices and claims are gone")
