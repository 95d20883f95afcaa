"""A reboot that EC2 schedules, in a pool that only closes nodes, as with the handler's uncordonAfterReboot."""

from __future__ import annotations

import asyncio

import pytest

from local.probe import request_json
from shared.domain import labels as keys
from shared.kube.resources import NODE_POOLS, NODES, PODS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import NAMESPACE, Playground, ShellKubectl, until
from tests.support.stories.scale_down import Pool, family

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]


async def test_a_node_is_closed_before_its_reboot_and_open_again_afterwards(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """Its pod stays all the while, and no machine is bought or deleted."""
    control = f"{playground.environment.aws_endpoint_url}/_dovetail/statuses"
    pool = Pool(playground, kubectl, "NodePool", "rebooted")
    await pool.apply_class()
    await pool.apply(family("c6a"))
    note = {"metadata": {"annotations": {keys.INTERRUPTION_ANNOTATION: "cordon"}}}
    await playground.kube.patch(NODE_POOLS, "rebooted", note)
    await pool.run(1)

    async def settled() -> str:
        instances = (await playground.look()).live_instances
        runs = [one["status"]["phase"] for one in await pods(playground)]
        return instances[0].instance_id if runs == ["Running"] and len(instances) == 1 else ""

    instance = await until(settled, "the pod runs")

    async def closed() -> bool:
        (node,) = (await playground.look()).nodes
        raw = await playground.kube.get(NODES, node.name)
        return keys.MAINTENANCE_TAINT_KEY in {one["key"] for one in raw["spec"].get("taints", ())}

    async def opened() -> bool:
        return not await closed()

    chosen = {"instanceIds": [instance]}
    reboot = {**chosen, "event": "system-reboot", "eventInSeconds": 600}
    await asyncio.to_thread(request_json, control, body=reboot)
    await until(closed, "the node is closed")
    assert await settled() == instance
    await asyncio.to_thread(request_json, control, body=chosen)
    await until(opened, "the node is open again")
    assert await settled() == instance


async def pods(playground: Playground) -> list[dict[str, dict[str, str]]]:
    found: list[dict[str, dict[str, str]]] = (await playground.kube.list(PODS, NAMESPACE)).items
    return found
