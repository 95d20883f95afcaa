"""What users of Cluster Autoscaler and AWS Node Termination Handler switch on, on whole stacks with these settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.probe import request_json
from local.stack import Stack
from shared.domain import labels as keys
from shared.domain.nodes import OUT_OF_SERVICE
from shared.errors import NotFound
from shared.kube.resources import CONFIG_MAPS, NODES, PODS
from tests.support.aws.emulator import managed_instance, whole_ec2, whole_sqs
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import (
    NAMESPACE,
    Playground,
    ShellKubectl,
    playground_on,
    short_settings,
    until,
)
from tests.support.stories.scale_down import Pool, family

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]
STATUS = "cluster-autoscaler-status"
SYSTEM = "kube-system"


@contextmanager
def stack_with(directory: Path, **settings: str) -> Iterator[Stack]:
    """A running stack whose services have these settings too."""
    usual = short_settings(directory)
    stack = Stack(directory)
    stack.start(replace(usual, extra={**usual.extra, **settings}), detach=False)
    try:
        yield stack
    finally:
        stack.stop()


@asynccontextmanager
async def ground_with(directory: Path, **settings: str) -> AsyncIterator[Playground]:
    with stack_with(directory, **settings) as stack:
        async with playground_on(stack) as playground:
            yield playground


def of_size(cpu: int, kind: str = "m5") -> list[dict[str, Any]]:
    cores = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": [str(cpu)]}
    return [*family(kind), cores]


async def two_pools(ground: Playground) -> tuple[Pool, Pool]:
    """Pools of one weight: one buys machines of sixteen vCPU, the other of two."""
    kubectl = ShellKubectl(ground.stack)
    wide, tight = (Pool(ground, kubectl, "NodePool", name) for name in ("wide", "tight"))
    await wide.apply_class()
    await wide.apply(of_size(16), disruption={"consolidateAfter": "Never"})
    await tight.apply(of_size(2), disruption={"consolidateAfter": "Never"})
    return wide, tight


async def deploy(ground: Playground, name: str, replicas: int, cpu: str = "1500m") -> None:
    """Pods for any pool, all in one plan."""
    selector = [{"key": keys.NODE_POOL, "operator": "Exists"}]
    required = {"nodeSelectorTerms": [{"matchExpressions": selector}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": name}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"affinity": affinity, "containers": [container]},
    }
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod},
    }
    async with ground.one_plan(replicas, name):
        await ShellKubectl(ground.stack).apply(document)

    async def running() -> bool:
        found = await ground.kube.list(PODS, NAMESPACE, label_selector=f"app={name}")
        phases = [one["status"].get("phase") for one in found.items]
        return phases == ["Running"] * replicas

    await until(running, f"{replicas} pods of {name} run")


@pytest.mark.parametrize(
    ("expander", "more", "chosen"),
    [
        ("least-waste", {}, "tight"),
        ("most-pods", {}, "wide"),
        ("priority", {"EXPANDER_PRIORITIES": '10: [".*"]\n50: ["^wide$"]\n'}, "wide"),
        ("priority", {"EXPANDER_PRIORITIES": '10: [".*"]\n50: ["^tight$"]\n'}, "tight"),
    ],
)
async def test_an_expander_chooses_the_pool(
    tmp_path: Path, expander: str, more: dict[str, str], chosen: str
) -> None:
    """Two pods: the small machines are used to three quarters, and one of them takes but one pod. ``tight`` may have
    one node only, so it takes fewer pods than ``wide``."""
    async with ground_with(tmp_path, EXPANDER=expander, **more) as ground:
        pools = {pool.name: pool for pool in await two_pools(ground)}
        if expander == "most-pods":
            await pools["tight"].change(limits={"nodes": "1"})
        await deploy(ground, "web", 2)
        other = {"wide": "tight", "tight": "wide"}[chosen]
        assert await pools[chosen].nodes()
        assert not await pools[other].nodes()


async def test_random_uses_every_pool_in_the_long_run(tmp_path: Path) -> None:
    """Each pod fills a machine of either pool. That twenty rounds choose one pool alone happens once in half a million
    runs."""
    async with ground_with(tmp_path, EXPANDER="random") as ground:
        kubectl = ShellKubectl(ground.stack)
        pools = [Pool(ground, kubectl, "NodePool", name) for name in ("m5", "c6a")]
        await pools[0].apply_class()
        for pool in pools:
            machines = of_size(2, pool.name)
            await pool.apply(machines, disruption={"consolidateAfter": "Never"})
        for turn in range(20):
            await deploy(ground, f"web-{turn}", 1)
            if all([await pool.nodes() for pool in pools]):
                return
        raise AssertionError("one pool was never chosen")


async def test_the_status_config_map_follows_the_cluster(tmp_path: Path) -> None:
    async with ground_with(tmp_path, STATUS_CONFIG_MAP=f"{SYSTEM}/{STATUS}") as ground:
        kubectl = ShellKubectl(ground.stack)
        await may_write_the_status(kubectl)
        pool = Pool(ground, kubectl, "NodePool", "counted")
        await pool.apply_class()
        await pool.apply(family("m5"), limits={"nodes": "7"})
        await pool.run(1)
        await pool.serving(1)

        async def counted() -> dict[str, Any]:
            (group,) = (await status_of(ground)).get("nodeGroups") or [{}]
            ready = group["health"]["nodeCounts"]["registered"]["ready"]
            return dict(group) if ready == 1 else {}

        group = await until(counted, "the node counts as ready")
        assert group["name"] == "NodePool/counted"
        assert (group["health"]["status"], group["health"]["maxSize"]) == ("Healthy", 7)
        whole = await status_of(ground)
        assert whole["autoscalerStatus"] == "Running"
        assert whole["clusterWide"]["health"]["status"] == "Healthy"
        await kubectl("delete", "deployment", "counted")

        async def empty() -> bool:
            (group,) = (await status_of(ground))["nodeGroups"]
            return bool(group["health"]["nodeCounts"]["registered"]["total"] == 0)

        await until(empty, "the node that went does not count any more")


async def status_of(ground: Playground) -> dict[str, Any]:
    try:
        raw = await ground.kube.get(CONFIG_MAPS, STATUS, SYSTEM)
    except NotFound:
        return {}
    return dict(yaml.safe_load(raw["data"]["status"]))


async def may_write_the_status(kubectl: ShellKubectl) -> None:
    """The right that the chart gives with ``statusConfigMap``."""
    verbs = "--verb=create,get,patch"
    await kubectl("create", "role", STATUS, "-n", SYSTEM, verbs, "--resource=configmaps")
    account = "--serviceaccount=dovetail:dovetail-scheduler"
    await kubectl("create", "rolebinding", STATUS, "-n", SYSTEM, f"--role={STATUS}", account)


async def test_a_drained_node_of_a_group_is_out_of_service(tmp_path: Path) -> None:
    """As with the handler's enableOutOfServiceTaint: its volumes are free before its kubelet is gone."""
    async with ground_with(
        tmp_path, LIFECYCLE_HOOKS="drain", ENABLE_OUT_OF_SERVICE_TAINT="true"
    ) as ground:
        url, cluster = ground.environment.aws_endpoint_url, ground.environment.cluster_name
        async with whole_ec2(url) as ec2:
            instance = await managed_instance(ec2, cluster)

        async def node() -> dict[str, Any]:
            nodes = (await ground.kube.list(NODES)).items
            return next((one for one in nodes if one["spec"]["providerID"].endswith(instance)), {})

        async def drained() -> bool:
            taints = (await node())["spec"].get("taints") or []
            return {one["key"] for one in taints} >= {OUT_OF_SERVICE.key}

        await until(node, "the instance of the group is a node")
        body = {"kind": "autoscaling", "instanceId": instance, "heartbeatTimeoutSeconds": 60}
        await asyncio.to_thread(request_json, f"{url}/_dovetail/interruptions", body=body)
        await until(drained, "the node is out of service")


@pytest.mark.parametrize("deletes", [True, False])
async def test_messages_about_unknown_instances_are_deleted_or_left(
    tmp_path: Path, deletes: bool
) -> None:
    """As with the handler's deleteSqsMsgIfNodeNotFound."""
    async with ground_with(
        tmp_path, DELETE_SQS_MSG_IF_NODE_NOT_FOUND=str(deletes).lower()
    ) as ground:
        url, cluster = ground.environment.aws_endpoint_url, ground.environment.cluster_name
        async with whole_sqs(url) as sqs:
            queue = (await sqs.get_queue_url(QueueName=cluster))["QueueUrl"]
            await sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(spot_warning()))

            async def handled() -> bool:
                named = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
                found = await sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=named)
                waiting, held = (int(found["Attributes"][name]) for name in named)
                return (waiting, held) == ((0, 0) if deletes else (0, 1))

            await until(handled, "the message is gone" if deletes else "the message is held")


def spot_warning() -> dict[str, Any]:
    """EC2's warning about an instance that nobody here knows."""
    return {
        "version": "0",
        "id": "5c1d2e3f-0000-4000-8000-000000000001",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2026-11-26T07:00:00Z",
        "region": "us-west-2",
        "resources": ["arn:aws:ec2:us-west-2:123456789012:instance/i-0123456789abcdef0"],
        "detail": {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"},
    }
