"""Stories that mostly wait, told side by side on a running stack, each in a pool of its own: ACC-39, ACC-67,
ACC-75, ACC-76 and ACC-80.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from local.probe import request_json
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.kube.resources import EVENTS, PODS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import NAMESPACE, Playground, ShellKubectl, is_leaving, until
from tests.support.stories.scale_down import (
    CONSOLIDATE,
    Pool,
    family,
    is_initialized,
    name_of,
    owner,
    passes,
    stays_because,
)

pytestmark = [
    pytest.mark.e2e,
    NEEDS_KUBECTL,
]


async def test_39_67_75_76_80_stories_that_mostly_wait(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """Side by side."""

    def node_pool(name: str) -> Pool:
        return Pool(playground, kubectl, "NodePool", name)

    await node_pool("keyless").apply_class()
    await a_key_that_may_not_be_used(playground, node_pool("keyless"))
    async with asyncio.TaskGroup() as group:
        group.create_task(budgets_of_one_node(node_pool("budgeted")))
        group.create_task(a_drain_that_must_end(node_pool("graced")))
        group.create_task(a_pod_that_holds_for_a_while(node_pool("timed")))
        group.create_task(a_life_too_short_to_boot(playground, node_pool("shortlived")))


async def a_key_that_may_not_be_used(playground: Playground, pool: Pool) -> None:
    """39: the instance ends at once, its claim never registers and is cleaned up, and an event points to the key; the
    pod gets the next one."""
    control = f"{playground.environment.aws_endpoint_url}/_dovetail"
    request_json(f"{control}/faults", body={"action": "KMSDecrypt", "count": 1})
    await pool.apply(family("c6i"))
    await pool.run(1)

    async def explained() -> str:
        for event in (await playground.kube.list(EVENTS)).items:
            if event["reason"] == "InstanceTerminated" and "KMS key" in event["message"]:
                return str(event["involvedObject"]["uid"])
        return ""

    lost = await until(explained, "an event names the key")
    await pool.serving(1)
    assert lost not in {machine["metadata"]["uid"] for machine in await pool.machines()}


async def budgets_of_one_node(pool: Pool) -> None:
    """67: a schedule that is none closes everything; 10% of one node is one; a closed window limits nothing."""
    await pool.apply(family("m5"), disruption={**CONSOLIDATE, "budgets": [{"nodes": "0"}]})
    await pool.run(1)
    (node,) = await pool.serving(1)
    await pool.scale(0)
    text = await pool.told("DisruptionBlocked", pool.name)
    assert text.startswith("No allowed disruptions for disruption reason")
    broken = {"nodes": "100%", "schedule": "61 25 * * *", "duration": "1h"}
    await pool.change(disruption={"budgets": [broken]})
    await passes(pool.ground, 2)
    assert not is_leaving((await pool.nodes())[0]), node
    closed = {"nodes": "0", "schedule": "0 0 29 2 *", "duration": "1m"}
    await pool.change(disruption={"budgets": [{"nodes": "10%"}, closed]})
    await pool.gone()


async def a_drain_that_must_end(pool: Pool) -> None:
    """75: past its budget, as early as its grace asks for and not before."""
    await pool.apply(family("r5"), {"terminationGracePeriod": "9s"})
    await pool.run(1, grace=4)
    await pool.budget(0)
    (node,) = await pool.serving(1)
    (pod,) = await pool.pods()
    await pool.kubectl("delete", "nodeclaim", owner(node), "--wait=false")

    async def deadline() -> str:
        (machine,) = [m for m in await pool.machines() if name_of(m) == owner(node)]
        return str(machine["metadata"]["annotations"][keys.TERMINATION_TIMESTAMP])

    stamp = await until(deadline, "its deadline is written")
    await pool.told("TerminationGracePeriodExpiring", name_of(node))

    async def deleted_at() -> float:
        listed = (await pool.ground.kube.list(PODS, NAMESPACE)).items
        mine = [p for p in listed if name_of(p) == name_of(pod)]
        return 0.0 if mine and not is_leaving(mine[0]) else time.time()

    at = await until(deleted_at, "the pod is deleted")
    assert at >= parse_rfc3339(stamp) - 4 - 1, (
        "no earlier than its grace, but for the clock's whole seconds"
    )
    await pool.kubectl("wait", f"node/{name_of(node)}", "--for=delete", "--timeout=120s")


async def a_pod_that_holds_for_a_while(pool: Pool) -> None:
    """76: until its start and so long; then its node is a candidate."""
    await pool.apply(family("r6i"), disruption={**CONSOLIDATE, "budgets": [{"nodes": "100%"}]})
    await pool.run(1, cpu="6", annotations={keys.DO_NOT_DISRUPT: "1h"})
    (large,) = await pool.serving(1)
    (pod,) = await pool.pods()
    started = parse_rfc3339(pod["status"]["startTime"])
    await pool.change(template={"metadata": {"labels": {"example.com/color": "green"}}})

    async def blocked() -> bool:
        told = await stays_because(pool.ground, name_of(large))
        return any(keys.DO_NOT_DISRUPT in one["text"] for one in told)

    await until(blocked, "the annotation holds its node")
    span = round(time.time() - started) + 3
    mark = f"{keys.DO_NOT_DISRUPT}={span}s"
    await pool.kubectl("annotate", "pod", name_of(pod), mark, "--overwrite")

    async def deleted() -> float:
        found = [n for n in await pool.nodes() if name_of(n) == name_of(large)]
        return 0.0 if found and not is_leaving(found[0]) else time.time()

    assert await until(deleted, "the node goes") >= started + span


async def a_life_too_short_to_boot(playground: Playground, pool: Pool) -> None:
    """80: the documented hazard."""
    await pool.apply(family("c5"), {"expireAfter": "1s"})
    await pool.run(1)

    async def deleted_young() -> bool:
        return any(is_leaving(m) and not is_initialized(m) for m in await pool.machines())

    await until(deleted_young, "a claim is deleted before it is initialised")
    assert "deleting expired nodeclaim" in playground.logged("scheduler")
    await pool.scale(0)
    await pool.gone()
