"""Today's kinds on the local stack, alone and beside the older ones (MAP-01, NP-16, NP-23, EC-20, NC-10)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from cli.demo import workload
from cli.demo.scenarios import SCENARIOS
from cli.demo.workload import DEPLOYMENTS
from shared.domain import labels as keys
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.resources import (
    EC2_NODE_CLASSES,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
)
from tests.support.stories.playground import TTL_SECONDS, Playground, until

pytestmark = pytest.mark.e2e
LIVING = {"Launched", "Registered", "Initialized", "Ready"}


async def test_400_pods_with_a_node_pool_and_an_ec2_node_class(playground: Playground) -> None:
    """The seeds' story in today's words: NodeClaims, a managed instance profile, and nothing left."""
    report = await playground.play("nodepool")
    problems = [report.failure, *(check.detail for check in report.checks if not check.ok)]
    assert report.ok, (problems, report.timeline[-20:])
    assert len(report.nodes) <= 2
    assert (await playground.kube.list(NODE_CLAIMS)).items == []


def spot_pods(name: str, pool_label: str) -> dict[str, Any]:
    """A Deployment of five pods that ask for one generation's pool."""
    document = workload.deployment(SCENARIOS["node-delete"])
    document["metadata"]["name"] = name
    document["spec"]["replicas"] = 5
    document["spec"]["selector"]["matchLabels"] = {"app": name}
    template = document["spec"]["template"]
    template["metadata"]["labels"] = {"app": name}
    template["spec"]["nodeSelector"] = {pool_label: "default"}
    return document


async def running_on(playground: Playground, app: str) -> set[str]:
    """Names of the nodes that run all five pods of ``app``; empty while they do not."""
    pods = (await playground.kube.list(PODS, "default", label_selector=f"app={app}")).items
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    return {pod["spec"]["nodeName"] for pod in running} if len(running) == 5 else set()


async def test_both_generations_live_in_one_cluster_under_one_name(playground: Playground) -> None:
    """MAP-01: pool and class are called default in both; one label decides who owns a node."""
    cluster = playground.environment.cluster_name
    for api in (V1ALPHA5, V1):
        await workload.apply_pool(playground.kube, cluster, 300, api)
    for name, label in (("old", keys.PROVISIONER_NAME), ("new", keys.NODE_POOL)):
        async with playground.one_plan(5, name):
            await playground.create(DEPLOYMENTS, spot_pods(name, label))
    for name, label, kind in (
        ("old", keys.PROVISIONER_NAME, "Machine"),
        ("new", keys.NODE_POOL, "NodeClaim"),
    ):
        nodes = await until(partial(running_on, playground, name), f"{name} pods run")
        for node in nodes:
            raw = await playground.kube.get(NODES, node)
            assert raw["metadata"]["labels"][label] == "default"
            assert [owner["kind"] for owner in raw["metadata"]["ownerReferences"]] == [kind]
    assert len((await playground.kube.list(MACHINES)).items) == 1

    async def ready_claim() -> dict[str, Any]:
        (claim,) = (await playground.kube.list(NODE_CLAIMS)).items
        conditions = {c["type"]: c["status"] for c in claim["status"]["conditions"]}
        assert {kind for kind, status in conditions.items() if status == "True"} >= LIVING
        return claim

    claim = await until(ready_claim, "the claim is ready")
    assert claim["metadata"]["labels"][keys.NODE_CLASS] == "default"
    assert claim["status"]["imageID"].startswith("ami-")


async def told(playground: Playground, reason: str) -> bool:
    """The pool is not ready, and for this reason."""
    condition = await playground.condition(NODE_POOLS, "default", "Ready")
    return (condition["status"], condition["reason"]) == ("False", reason)


async def test_a_pool_without_its_class_waits_and_goes_on_seconds_after_it_is_there(
    playground: Playground,
) -> None:
    """NP-16, NP-23: NodeClassNotFound on the pool, the reason on the pod; then everything runs."""
    await playground.create(NODE_POOLS, workload.node_pool(TTL_SECONDS))
    await playground.create(DEPLOYMENTS, spot_pods("waits", keys.NODE_POOL))
    await until(partial(told, playground, "NodeClassNotFound"), "the pool is told")
    node_class = workload.node_class(playground.environment.cluster_name)
    await playground.create(EC2_NODE_CLASSES, node_class)
    await until(lambda: running_on(playground, "waits"), "the pods run")


async def test_a_class_in_use_stays_until_its_claims_are_gone(playground: Playground) -> None:
    """EC-20, NodeClassTerminating: deleted first, it goes last."""
    cluster = playground.environment.cluster_name
    await workload.apply_pool(playground.kube, cluster, TTL_SECONDS, V1)
    await playground.create(DEPLOYMENTS, spot_pods("uses", keys.NODE_POOL))
    await until(lambda: running_on(playground, "uses"), "the pods run")
    await playground.kube.delete(EC2_NODE_CLASSES, "default")
    await until(partial(told, playground, "NodeClassTerminating"), "the pool is told")
    (node_class,) = (await playground.kube.list(EC2_NODE_CLASSES)).items
    assert keys.CLASS_FINALIZER in node_class["metadata"]["finalizers"]
    await playground.kube.delete(DEPLOYMENTS, "uses", "default")

    async def gone() -> bool:
        claims = (await playground.kube.list(NODE_CLAIMS)).items
        return not claims and not (await playground.kube.list(EC2_NODE_CLASSES)).items

    await until(gone, "claim and class are gone")
