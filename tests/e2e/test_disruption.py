"""Machines taken away on a running stack, with kubectl where a person would use it.

ACC-28, ACC-29, ACC-34, ACC-36, ACC-52, ACC-74, ACC-79 and ACC-82; ``git grep -w`` finds where the others are.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial

import pytest

from cli.demo import workload
from cli.demo.snapshot import Snapshot
from local.probe import request_json
from shared.domain import labels as keys
from shared.domain.machines.machine import EMPTY
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODES
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.console.story_page import StoryPage
from tests.support.stories.playground import Playground, ShellKubectl, until
from tests.support.stories.scale_down import (
    consolidating_pool,
    dovetail,
    family,
    hourly,
    inflate,
    scale,
    seen,
    settled,
    stays_because,
)

pytestmark = [
    pytest.mark.e2e,
    NEEDS_KUBECTL,
]


def settled_and_cheaper(replicas: int, cost: float, now: Snapshot) -> bool:
    return settled(replicas)(now) and hourly(now) < cost


async def test_28_29_an_empty_node_goes_after_its_ttl_unless_a_pod_comes(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """The seeds' log lines included."""
    await workload.apply_pool(playground.kube, playground.environment.cluster_name, 60)
    await inflate(playground, kubectl, 1, keys.SPOT)
    (node,) = (await playground.look()).nodes
    await scale(kubectl, 0)
    await seen(
        playground, "the TTL runs", lambda now: any(EMPTY in m.reached for m in now.machines)
    )
    await scale(kubectl, 1)
    await seen(
        playground,
        "the TTL is taken back",
        lambda now: now.running == 1 and all(EMPTY not in m.reached for m in now.machines),
    )
    assert [one.name for one in (await playground.look()).nodes if not one.leaving] == [node.name]
    await kubectl("patch", "provisioner", "default", "--type=merge", "-p", SHORT_TTL)
    await scale(kubectl, 0)
    await seen(playground, "all is gone", lambda now: not (now.nodes or now.live_instances))
    told = playground.logged("scheduler")
    assert told.count("added TTL to empty node") >= 2
    assert "removed emptiness TTL from node" in told
    assert "triggering termination after 2s for empty node" in told
    assert {"cordoned node", "deleted node"} <= set(playground.logged("terminator"))


SHORT_TTL = '{"spec": {"ttlSecondsAfterEmpty": 2}}'


@pytest.mark.parametrize("story", ["pdb-blocked", "drift"])
async def test_34_79_the_stories_come_out(playground: Playground, story: str) -> None:
    """34: a budget holds a drain and an event says so. 79: another template label, nodes replaced one by one."""
    report = await playground.play(story)
    problems = [report.failure, *(check.detail for check in report.checks if not check.ok)]
    assert report.ok, (problems, report.timeline[-30:])


@pytest.mark.nightly
async def test_36_a_node_whose_instance_is_gone_goes_without_a_drain(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """Its pods are held by a budget: a drain would never end."""
    await workload.apply_pool(playground.kube, playground.environment.cluster_name, 60)
    await inflate(playground, kubectl, 1, keys.SPOT)
    await kubectl.apply(workload.budget(most_unavailable=0))
    (node,) = (await playground.look()).nodes
    await asyncio.to_thread(terminate_instance, playground, provider_instance_id(node.provider_id))
    await kubectl("delete", "node", node.name, "--wait=true", "--timeout=120s")
    await seen(playground, "the pod runs elsewhere", lambda now: now.running == 1)


def terminate_instance(playground: Playground, instance_id: str) -> None:
    """What somebody does in the console."""
    boto3 = pytest.importorskip("boto3")
    variables = playground.stack.running().environment
    client = boto3.client(
        "ec2",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    client.terminate_instances(InstanceIds=[instance_id])


async def test_52_consolidation_follows_a_workload_from_10_to_6_to_1(
    playground: Playground, kubectl: ShellKubectl, console: StoryPage
) -> None:
    """v1alpha5: consolidation.enabled instead of the TTL; log and console name the method, the log the types."""
    await workload.apply_pool(
        playground.kube,
        playground.environment.cluster_name,
        1,
        changes={
            "consolidation": {"enabled": True},
            "ttlSecondsAfterEmpty": None,
            "requirements": family("c5"),
        },
    )
    await inflate(playground, kubectl, 10, keys.ON_DEMAND)
    costs = [hourly(await playground.look())]
    for replicas in (6, 1):
        await scale(kubectl, replicas)
        now = await seen(
            playground,
            f"{replicas} pods on cheaper nodes",
            partial(settled_and_cheaper, replicas, costs[-1]),
        )
        costs.append(hourly(now))
    told = [
        line for line in playground.logged("scheduler") if line.startswith("deprovisioning via")
    ]
    assert any("-node " in line and "machine from types c5." in line for line in told), told
    await console.view("decisions", re.compile("(single|multi)-node"))


async def test_74_a_replacement_without_capacity_puts_the_old_node_back_to_work(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """EXE-05: a command whose replacement fails."""
    await consolidating_pool(playground, "m5a")
    await inflate(playground, kubectl, 10, keys.ON_DEMAND)
    (old,) = (await playground.look()).nodes
    control = f"{playground.environment.aws_endpoint_url}/_dovetail"
    empty = {"instanceType": "m5a.*", "zone": "*", "capacityType": "on-demand", "available": 0}
    request_json(f"{control}/capacity", body=empty)
    try:
        await scale(kubectl, 2)
        await until(
            lambda: "disruption rolled back" in playground.logged("scheduler"),
            "the command is rolled back",
        )
        now = await seen(
            playground,
            "the old node serves again",
            lambda s: settled(2)(s) and not s.nodes[0].tainted,
        )
        assert [node.name for node in now.nodes] == [old.name]
        assert len(now.live_instances) == 1
    finally:
        request_json(f"{control}/capacity", body=empty | {"available": None})


async def test_82_a_node_claim_of_nobody_launches_and_stays(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """It is empty, and it is nobody's to consolidate; `dovetail explain node` says why."""
    await playground.create(
        EC2_NODE_CLASSES, workload.node_class(playground.environment.cluster_name)
    )
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "standalone"},
        "spec": {
            "nodeClassRef": {
                "group": "karpenter.k8s.aws",
                "kind": "EC2NodeClass",
                "name": "default",
            },
            "requirements": [
                {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["r5.large"]},
                {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]},
            ],
        },
    }
    await kubectl.apply(claim)
    await kubectl("wait", "nodeclaim/standalone", "--for=condition=Initialized", "--timeout=120s")

    async def looked_at() -> bool:
        told = await stays_because(playground, "standalone")
        return bool(told[0]["text"] == "nodepool not found")

    await until(looked_at, "a pass looked at it")
    assert (
        "deletionTimestamp"
        not in (await playground.kube.get(NODE_CLAIMS, "standalone"))["metadata"]
    )
    await kubectl("delete", "nodeclaim", "standalone", "--wait=true", "--timeout=120s")


async def test_halt_and_resume_are_heeded(playground: Playground, kubectl: ShellKubectl) -> None:
    """A node that would go stays, `dovetail explain node` says why and what to do, and doing that lets it go."""
    await consolidating_pool(playground, "r6i")
    await inflate(playground, kubectl, 1, keys.ON_DEMAND)
    assert "halted: NodePool/default" in await dovetail(playground, "halt")
    (node,) = (await playground.look()).nodes
    await scale(kubectl, 0)

    way_out = "dovetail resume --pool NodePool/default"

    async def says_so() -> bool:
        told = await stays_because(playground, node.name)
        return way_out in [one["change"] for one in told]

    await until(says_so, "it says what holds it")
    assert f"-> {way_out}\n" in await dovetail(playground, "explain", "node", node.name)
    assert "deletionTimestamp" not in (await playground.kube.get(NODES, node.name))["metadata"]
    assert "resumed: " in await dovetail(playground, *way_out.split()[1:])
    await seen(playground, "the empty node goes", lambda now: not now.nodes)
