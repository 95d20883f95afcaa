"""Devices that can be had in parts and in several ways, on the local stack with a DRA driver (DRA-02, DRA-05)."""

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
    DEVICE_TEMPLATES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
)
from tests.support.stories.playground import NAMESPACE, Playground, until

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
GPU = "gpu.nvidia.com"
TYPE = "g5.xlarge"
MEMORY = {"memory": {"value": "24Gi"}}


def device(name: str, kind: str, memory: str) -> dict[str, Any]:
    counters = {"memory": {"value": memory}}
    return {
        "name": name,
        "attributes": {"type": {"string": kind}},
        "consumesCounters": [{"counterSet": "gpu-0", "counters": counters}],
    }


ON_TYPE = [{"key": keys.INSTANCE_TYPE, "operator": "In", "values": [TYPE]}]
HALVES = {
    "metadata": {"name": "halves"},
    "spec": {
        "requirements": ON_TYPE,
        "drivers": [
            {
                "driver": GPU,
                "sharedCounters": [{"name": "gpu-0", "counters": MEMORY}],
                "devices": [
                    device("gpu-0", "whole", "24Gi"),
                    device("gpu-0-half-0", "half", "12Gi"),
                    device("gpu-0-half-1", "half", "12Gi"),
                ],
            }
        ],
    },
}


def kind(name: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": f'device.attributes["{GPU}"].type == "{name}"'}}]


FIRST_WHOLE_OF_ANOTHER_KIND_THEN_HALF = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "quarter", "deviceClassName": GPU, "selectors": kind("quarter")},
        {"name": "half", "deviceClassName": GPU, "selectors": kind("half")},
    ],
}


SHARED = {
    "metadata": {"name": "shared"},
    "spec": {
        "requirements": ON_TYPE,
        "drivers": [
            {
                "driver": GPU,
                "devices": [
                    {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": MEMORY},
                ],
            }
        ],
    },
}
TEN_GIB = {
    "name": "gpu",
    "exactly": {"deviceClassName": GPU, "capacity": {"requests": {"memory": "10Gi"}}},
}


@pytest.fixture
def described() -> tuple[dict[str, Any], dict[str, Any]]:
    """The DeviceTemplate, and the request of each pod."""
    return HALVES, FIRST_WHOLE_OF_ANOTHER_KIND_THEN_HALF


@pytest.fixture
async def machines(
    playground: Playground, described: tuple[dict[str, Any], dict[str, Any]]
) -> AsyncIterator[Playground]:
    """A pool of machines whose devices are so described."""
    kube, (device_template, request) = playground.kube, described
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    await kube.create(DEVICE_TEMPLATES, device_template)
    await kube.create(
        DEVICE_CLASSES, {"metadata": {"name": GPU}, "spec": {"selectors": [selector]}}
    )
    devices = {"devices": {"requests": [request]}}
    template = {"metadata": {"name": "part"}, "spec": {"spec": devices}}
    await kube.create(CLAIM_TEMPLATES, template, NAMESPACE)
    requirements = [
        {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]},
        {"key": keys.INSTANCE_TYPE, "operator": "In", "values": [TYPE]},
    ]
    changes = {"template": {"spec": {"requirements": requirements}}}
    await workload.apply_pool(kube, playground.environment.cluster_name, 1, V1, changes=changes)
    yield playground
    for resource, name, namespace in (
        (DEVICE_TEMPLATES, device_template["metadata"]["name"], None),
        (DEVICE_CLASSES, GPU, None),
        (CLAIM_TEMPLATES, "part", NAMESPACE),
    ):
        with contextlib.suppress(NotFound):
            await kube.delete(resource, name, namespace)


def inference(replicas: int) -> dict[str, Any]:
    container = {
        "name": "model",
        "image": "model",
        "resources": {"requests": {"cpu": "500m"}, "claims": [{"name": "gpu"}]},
    }
    claim = {"name": "gpu", "resourceClaimTemplateName": "part"}
    labels = {"app": "parts"}
    return {
        "metadata": {"name": "parts"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"resourceClaims": [claim], "containers": [container]},
            },
        },
    }


async def allocated(ground: Playground) -> list[dict[str, Any]]:
    """Three pods run on two machines: what each of them holds."""
    kube = ground.kube
    async with ground.one_plan(3, "parts"):
        await kube.create(DEPLOYMENTS, inference(3), NAMESPACE)

    async def running() -> bool:
        pods = (await kube.list(PODS, NAMESPACE, label_selector="app=parts")).items
        return [(pod.get("status") or {}).get("phase") for pod in pods] == ["Running"] * 3

    await until(running, "three pods run")
    assert len((await kube.list(NODES, label_selector=keys.NODE_POOL)).items) == 2
    held = [
        one
        for claim in (await kube.list(RESOURCE_CLAIMS, NAMESPACE)).items
        for one in claim["status"]["allocation"]["devices"]["results"]
    ]
    await kube.delete(DEPLOYMENTS, "parts", NAMESPACE)
    return held


async def test_halves_of_a_device_are_planned_and_allocated(machines: Playground) -> None:
    """Nothing has a quarter, so each of three pods takes a half: two of one machine, one of another."""
    held = await allocated(machines)
    assert {one["request"] for one in held} == {"gpu/half"}
    assert len({(one["pool"], one["device"]) for one in held}) == 3


@pytest.mark.parametrize("described", [(SHARED, TEN_GIB)])
async def test_shares_of_a_device_are_planned_and_allocated(machines: Playground) -> None:
    """Ten of 24 GiB each: two pods share one device, the third has another."""
    held = await allocated(machines)
    assert [[*one["consumedCapacity"].values()] for one in held] == [[str(10 * 2**30)]] * 3
    assert len({(one["pool"], one["device"]) for one in held}) == 2
