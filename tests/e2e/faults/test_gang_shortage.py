"""EC2 has capacity for a part of a gang: it starts nothing of it (SCH-117), or what it started is given back (SCH-116).
The gang comes whole later."""

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
FAMILY = "karpenter.k8s.aws/instance-family"
ON_DEMAND = {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]}
TWO_CORES = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2"]}


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Playground]:
    """A stack whose instances boot slowly, and whose offerings are asked for again soon after EC2 refused them."""
    settings = short_settings(tmp_path, UNAVAILABLE_SECONDS="30s")
    with stack_of(replace(settings, boot_seconds=BOOT_SECONDS)) as stack:
        async with playground_on(stack) as playground:
            yield playground


async def capacity(
    ground: Playground, available: int | None, kind: str = "m5.large", zone: str = "*"
) -> None:
    """How many more of a type EC2 has in each of these zones; None: any number."""
    control = f"{ground.environment.aws_endpoint_url}/_dovetail/capacity"
    body = {"instanceType": kind, "zone": zone, "capacityType": "*", "available": available}
    await asyncio.to_thread(request_json, control, body=body)


def in_zones(*zones: str) -> dict[str, Any]:
    return {"key": keys.ZONE, "operator": "In", "values": [*zones]}


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
    families = {"key": FAMILY, "operator": "In", "values": ["m5", "m5a"]}
    await pool.apply(
        [ON_DEMAND, families, TWO_CORES, in_zones("us-west-2a", "us-west-2b")],
        disruption={"consolidateAfter": "Never"},
    )
    for kind in ("m5.large", "m5a.large"):
        await capacity(slow, 0, kind)
    await capacity(slow, MEMBERS - 1, zone="us-west-2a")
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
    await capacity(slow, None, zone="us-west-2a")
    await until(lambda: _runs(pool), "the gang runs as a whole")
    assert len(await pool.nodes()) == MEMBERS


async def test_of_a_gang_in_one_zone_nothing_starts_until_all_of_it_can(slow: Playground) -> None:
    """SCH-117: EC2 is asked for all or none, so nothing has to be given back."""
    kubectl = ShellKubectl(slow.stack)
    pool = Pool(slow, kubectl, "NodePool", "gangs")
    await pool.apply_class()
    await pool.apply([*family("m5"), TWO_CORES, in_zones("us-west-2a")])
    await capacity(slow, MEMBERS - 1)
    await kubectl.apply(training())

    async def refused() -> bool:
        return slow.logged("launcher").count("deleting machine") >= MEMBERS

    await until(refused, "EC2 refuses the gang as a whole")
    assert (await slow.look()).instances == ()
    await capacity(slow, None)
    await until(lambda: _runs(pool), "the gang runs as a whole")
    assert len((await slow.look()).instances) == MEMBERS


async def _runs(pool: Pool) -> bool:
    found = await pool.ground.kube.list(PODS, NAMESPACE, label_selector="app=train")
    return [one["status"].get("phase") for one in found.items] == ["Running"] * MEMBERS
