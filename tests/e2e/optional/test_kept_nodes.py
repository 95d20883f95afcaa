"""Nodes that a pool keeps beyond what its pods need, and nodes that users of Cluster Autoscaler keep, on a stack."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from local.stack import Stack
from shared.domain import labels as keys
from shared.domain.resources import parse_quantity
from shared.kube.resources import PODS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import (
    NAMESPACE,
    Playground,
    ShellKubectl,
    playground_on,
    running_stack,
    until,
)
from tests.support.stories.scale_down import (
    CONSOLIDATE,
    Pool,
    family,
    name_of,
    passes,
    stays_because,
)

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """With what users of Cluster Autoscaler switch on."""
    with running_stack(
        tmp_path_factory,
        CLUSTER_AUTOSCALER_ANNOTATIONS="true",
        EXPENDABLE_PODS_PRIORITY_CUTOFF="-10",
    ) as stack:
        yield stack


@pytest.fixture
async def ground(stack: Stack) -> AsyncIterator[Playground]:
    async with playground_on(stack) as ground:
        yield ground


@pytest.fixture
def kubectl(ground: Playground) -> ShellKubectl:
    return ShellKubectl(ground.stack)


async def pool_of(ground: Playground, kubectl: ShellKubectl, name: str, kind: str) -> Pool:
    """A NodePool of one family that is consolidated at once."""
    pool = Pool(ground, kubectl, "NodePool", name)
    await pool.apply_class()
    await pool.apply(family(kind), disruption=CONSOLIDATE)
    return pool


async def reasons(ground: Playground, node: str, word: str) -> str:
    """Wait until the scheduler says with this word why the node stays."""

    async def said() -> str:
        found = [str(one) for one in await stays_because(ground, node)]
        return next((one for one in found if word in one), "")

    return await until(said, f"{node} stays because of {word}")


def cpus(raw: dict[str, Any], where: str = "allocatable") -> float:
    return float(parse_quantity(raw["status"][where]["cpu"], field="cpu"))


async def test_headroom_is_free_beside_the_pods_and_goes_with_its_annotation(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """Four cores more than the pods request, and no node of them counts as empty."""
    pool = await pool_of(ground, kubectl, "roomy", "m6a")
    await kubectl("annotate", "nodepool", pool.name, "dovetail.sh/headroom=cpu: 4")
    await pool.run(1)

    async def roomy() -> bool:
        nodes = await pool.nodes()
        return sum(map(cpus, nodes)) >= 1 + 4 and len(await pool.pods()) == 1

    await until(roomy, "four cores are free")
    await passes(ground, 3)
    assert await roomy()
    await kubectl("annotate", "nodepool", pool.name, "dovetail.sh/headroom-")

    async def small() -> bool:
        return [cpus(node) < 5 for node in await pool.nodes()] == [True]

    await until(small, "one small machine is left")
    await pool.scale(0)
    await pool.gone()


async def test_annotations_of_cluster_autoscaler_keep_their_nodes(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """A pod that says it may not be evicted, then a node that says it may not go. Without them it goes."""
    pool = await pool_of(ground, kubectl, "kept", "c6a")
    await pool.run(3, cpu="1500m", annotations={SAFE: "false"})

    async def running() -> bool:
        pods = await pool.pods()
        return [pod["status"].get("phase") for pod in pods] == ["Running"] * 3

    await until(running, "three pods run")
    await pool.scale(1)
    (node,) = await pool.serving(1)
    assert SAFE in await reasons(ground, name_of(node), SAFE)
    await passes(ground, 3)
    assert [name_of(one) for one in await pool.nodes()] == [name_of(node)]
    await kubectl("annotate", "node", name_of(node), f"{DISABLED}=true")
    await pool.scale(0)
    assert DISABLED in await reasons(ground, name_of(node), DISABLED)
    await passes(ground, 3)
    assert [name_of(one) for one in await pool.nodes()] == [name_of(node)]
    await kubectl("annotate", "node", name_of(node), f"{DISABLED}-")
    await pool.gone()


async def test_an_expendable_pod_buys_nothing_and_a_threshold_keeps_a_busy_node(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """The first waits until there is room; the pods of the second fit a smaller machine, and it is used too much."""
    pool = await pool_of(ground, kubectl, "busy", "r6a")
    await kubectl("annotate", "nodepool", pool.name, "dovetail.sh/utilization-threshold=20%")
    await kubectl("create", "priorityclass", "expendable", "--value=-20")
    spec = {
        "priorityClassName": "expendable",
        "nodeSelector": {keys.NODE_POOL: pool.name},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": "pause", "resources": {"requests": {"cpu": "1"}}}],
    }
    await kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "expendable", "namespace": NAMESPACE},
            "spec": spec,
        }
    )
    await passes(ground, 3)
    assert await pool.machines() == []
    await pool.run(6, cpu="1200m")

    async def running() -> bool:
        pods = await pool.pods()
        return [pod["status"].get("phase") for pod in pods] == ["Running"] * 6

    await until(running, "six pods run")

    async def bound() -> bool:
        found = await ground.kube.get(PODS, "expendable", NAMESPACE)
        return bool(found["spec"].get("nodeName"))

    await pool.scale(3)
    await until(bound, "there is room for the expendable pod")
    nodes = await pool.nodes()
    assert "utilization" in await reasons(ground, name_of(nodes[0]), "utilization")
    await kubectl("annotate", "nodepool", pool.name, "dovetail.sh/utilization-threshold-")
    before = {name_of(one) for one in nodes}

    async def moved() -> bool:
        return not before & {name_of(one) for one in await pool.nodes()}

    await until(moved, "a smaller machine has the pods")
