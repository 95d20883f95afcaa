"""EC2 has capacity for a part of a gang: what was launched for it is given back, and comes whole later (SCH-116)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local.probe import request_json
from shared.domain import labels as keys
from shared.kube.resources import PODS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import (
    NAMESPACE,
    Playground,
    ShellKubectl,
    playground_on,
    short_settings,
    stack_of,
    until,
)
from tests.support.stories.scale_down import Pool, family

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]
BOOT_SECONDS = 60.0
"""As long as on EC2: a node that is there at once takes a pod before anybody can give it back."""
MEMBERS = 3
TWO_CORES = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2"]}


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Playground]:
    """A stack whose instances boot slowly, and whose offerings are asked for again soon after EC2 refused them."""
    settings = short_settings(tmp_path, UNAVAILABLE_SECONDS="30s")
    with stack_of(replace(settings, boot_seconds=BOOT_SECONDS)) as stack:
        async with playground_on(stack) as playground:
            yield playground


async def capacity(ground: Playground, available: int | None) -> None:
    """How many more m5.large EC2 has in each zone; None: any number."""
    control = f"{ground.environment.aws_endpoint_url}/_dovetail/capacity"
    body = {"instanceType": "m5.large", "zone": "*", "capacityType": "*", "available": available}
    await asyncio.to_thread(request_json, control, body=body)


def training() -> dict[str, Any]:
    """Pods that each fill a machine."""
    container = {"name": "train", "image": "train", "resources": {"requests": {"cpu": "1500m"}}}
    annotations = {keys.GANG: "train", keys.GANG_SIZE: str(MEMBERS)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": NAMESPACE},
        "spec": {
            "replicas": MEMBERS,
            "selector": {"matchLabels": {"app": "train"}},
            "template": {
                "metadata": {"labels": {"app": "train"}, "annotations": annotations},
                "spec": {"containers": [container], "nodeSelector": {keys.NODE_POOL: "gangs"}},
            },
        },
    }


async def test_a_part_is_given_back_and_the_whole_comes_when_there_is_capacity(
    slow: Playground,
) -> None:
    kubectl = ShellKubectl(slow.stack)
    pool = Pool(slow, kubectl, "NodePool", "gangs")
    await pool.apply_class()
    zone = {"key": keys.ZONE, "operator": "In", "values": ["us-west-2a"]}
    await pool.apply([*family("m5"), TWO_CORES, zone], disruption={"consolidateAfter": "Never"})
    await capacity(slow, MEMBERS - 1)
    await kubectl.apply(training())

    async def launched() -> int:
        return len((await slow.look()).live_instances)

    async def partly() -> bool:
        return await launched() == MEMBERS - 1

    async def nothing() -> bool:
        return await launched() == 0

    await until(partly, "EC2 serves the gang in part")
    await until(nothing, "what was launched is given back")
    assert "giving back the machine of a gang" in slow.logged("scheduler")
    assert await pool.nodes() == [], (
        "no node came up meanwhile, so no pod of the gang started alone"
    )
    await capacity(slow, None)
    await until(lambda: _runs(pool), "the gang runs as a whole")
    assert len(await pool.nodes()) == MEMBERS


async def _runs(pool: Pool) -> bool:
    found = await pool.ground.kube.list(PODS, NAMESPACE, label_selector="app=train")
    return [one["status"].get("phase") for one in found.items] == ["Running"] * MEMBERS
