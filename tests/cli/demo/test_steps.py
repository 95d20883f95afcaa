"""What a scenario does to the cluster, step by step, where the test itself does Dovetail's work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cli.demo import story
from cli.demo.acts import blocked_drain, delete_node, expire, halve, interrupt, relabel
from cli.demo.scenarios import SCENARIOS
from cli.demo.stage import StoryFailed
from cli.demo.workload import DEPLOYMENTS, budget
from shared.kube.resources import EVENTS, NODE_POOLS, PODS, PROVISIONERS
from tests.services.conftest import Control
from tests.support.aws.emulator import spot_instance, whole_ec2
from tests.support.stories.demo_world import DemoWorld, demo_world
from tests.support.waiting import wait_until

SMALL = replace(SCENARIOS["burst-100"], pods=4)


@pytest.fixture
async def world(aws_emulator_url: str, tmp_path: Path) -> AsyncIterator[DemoWorld]:
    """An empty cluster, and an emulator without instances."""
    Control(aws_emulator_url).post("reset")
    async with demo_world(SMALL, tmp_path, aws_emulator_url) as made:
        yield made


def complete(world: DemoWorld, *nodes: str, each: int = 2) -> None:
    """The workload runs on these nodes of equal price, as after the first half of a scenario."""
    world.stage.nodes = tuple(replace(world.node(one, price=0.2), pods=each) for one in nodes)
    for one in nodes:
        world.pods(each, one, prefix=one)


def gone(world: DemoWorld, *nodes: str) -> None:
    """These nodes and their pods have ended."""
    for pod in world.store.list("pods", namespace="default"):
        if pod["spec"]["nodeName"] in nodes:
            name = pod["metadata"]["name"]
            world.store.delete("pods", name, namespace="default", grace_seconds=0)
    world.remove(*nodes)


def taken_over(world: DemoWorld, node: str, pods: int = SMALL.pods) -> None:
    """Another node runs the pods."""
    world.node(node, price=0.1)
    world.pods(pods, node, prefix=node)


async def replicas(world: DemoWorld) -> int:
    """Those of the workload's Deployment."""
    found = await world.stage.kube.get(DEPLOYMENTS, "inflate", "default")
    return int(found["spec"]["replicas"])


@pytest.mark.parametrize("name", ["burst-10", "nodepool", "consolidate", "drift"])
async def test_pool_class_and_workload_are_accepted_by_the_api_server(
    world: DemoWorld, name: str
) -> None:
    """In both generations, with the changes that a scenario makes; a second time they are patched."""
    world.stage.scenario = SCENARIOS[name]
    await story._apply(world.stage)
    await story._apply(world.stage)
    kube, v1 = world.stage.kube, SCENARIOS[name].generation_api == "v1"
    pool = await kube.get(NODE_POOLS if v1 else PROVISIONERS, "default")
    requirements = pool["spec"].get("template", pool)["spec"]["requirements"]
    assert [SCENARIOS[name].capacity_type] in [one["values"] for one in requirements]
    assert await replicas(world) == 0


async def test_a_workload_grows_and_shrinks_phase_by_phase(world: DemoWorld) -> None:
    world.workload()
    world.node("a", price=0.2)
    world.pods(SMALL.pods, "a")
    await story._grow(world.stage)
    assert world.stage.pods == (4, 4, 0)
    assert [node.pods for node in world.stage.nodes] == [4]
    story._check_nodes(world.stage)
    assert world.failed_checks() == {}
    gone(world, "a")
    await story._shrink(world.stage)
    assert [phase.failed for phase in world.stage.timeline.phases] == [False] * 7
    assert "node gone  node/a" in world.shown.getvalue()


async def test_a_deleted_node_is_replaced_when_its_pods_run_elsewhere(world: DemoWorld) -> None:
    complete(world, "old", each=0)
    taken_over(world, "new")
    await delete_node(world.stage)
    assert world.store.find("nodes", "old") is None
    assert [(node.name, node.pods) for node in world.stage.nodes] == [("new", 4)]


@pytest.mark.parametrize(
    ("zone", "failed"),
    [
        ("us-west-2b", {}),
        ("us-west-2a", {"interrupted offering": "m5.large in us-west-2a is bought again"}),
    ],
)
async def test_an_interrupted_offering_must_not_be_bought_again(
    world: DemoWorld, aws_emulator_url: str, zone: str, failed: dict[str, str]
) -> None:
    async with whole_ec2(aws_emulator_url) as ec2:
        instance = await spot_instance(ec2, "dovetail-local")
        complete(world, "old", each=0)
        gone(world, "old")
        world.node("new", price=0.1, zone=zone)
        world.pods(SMALL.pods, "new")
        old = replace(world.stage.nodes[0], provider_id=f"aws:///us-west-2a/{instance}")
        world.stage.nodes = (old,)

        async def end() -> None:
            await wait_until(lambda: len(world.stage.timeline.phases) == 2, "the notice was sent")
            await ec2.terminate_instances(InstanceIds=[instance])

        await asyncio.gather(interrupt(world.stage), end())
    assert world.failed_checks() == failed
    assert world.stage.terminated == 1


async def test_consolidation_ends_with_nodes_that_cost_less(world: DemoWorld) -> None:
    world.workload()
    complete(world, "a", "b", each=1)
    gone(world, "a", "b")
    taken_over(world, "c", pods=2)
    await halve(world.stage)
    assert world.failed_checks() == {}
    assert "1 after" in world.stage.checks[0].detail
    assert await replicas(world) == 2


async def test_consolidation_that_changes_nothing_fails_with_the_cost(world: DemoWorld) -> None:
    world.stage.scenario = replace(SMALL, timeout_seconds=-1.0)
    world.workload()
    complete(world, "a", "b", each=1)
    with pytest.raises(StoryFailed, match=r"the nodes still cost \$0\.4000 an hour after -1 s"):
        await halve(world.stage)
    assert world.stage.timeline.phases[-1].failed


async def drifted(world: DemoWorld) -> None:
    """Two nodes of a pool that run the workload were seen, and a NodeClaim has drifted."""
    world.stage.scenario = replace(SCENARIOS["drift"], pods=4)
    await story._apply(world.stage)
    complete(world, "a", "b")
    await world.stage.observe()
    world.claim("drifts", "", price=0.1)
    world.reached("drifts", "Initialized", "Drifted", provider_id="aws:///us-west-2a/i-drifts")


async def test_drift_changes_the_template_and_replaces_first(world: DemoWorld) -> None:
    await drifted(world)
    for old in ("a", "b"):
        taken_over(world, f"new-{old}", pods=2)
        await world.stage.observe()
        gone(world, old)
        await world.stage.observe()
    await relabel(world.stage)
    pool = await world.stage.kube.get(NODE_POOLS, "default")
    assert pool["spec"]["template"]["metadata"]["labels"] == {"demo.dovetail.sh/color": "green"}
    assert [one.name for one in world.stage.checks] == ["replacement ready", "one after another"]
    assert world.failed_checks() == {}


async def test_drift_that_buys_all_replacements_at_once_is_found(world: DemoWorld) -> None:
    await drifted(world)
    taken_over(world, "new", pods=2)
    taken_over(world, "newer", pods=2)
    await world.stage.observe()
    gone(world, "a", "b")
    await relabel(world.stage)
    assert world.failed_checks() == {
        "one after another": "at most 2 replacement(s) ahead of drains"
    }


async def test_drift_that_deletes_before_it_replaces_is_found(world: DemoWorld) -> None:
    await drifted(world)
    gone(world, "a", "b")
    await world.stage.observe()
    taken_over(world, "new")
    await relabel(world.stage)
    assert world.failed_checks() == {"replacement ready": "a, b left before that"}


async def test_an_expired_node_is_replaced_first(world: DemoWorld) -> None:
    world.stage.scenario = replace(SCENARIOS["expire"], pods=4)
    await story._apply(world.stage)
    complete(world, "old", each=4)
    taken_over(world, "new")
    await world.stage.observe()
    gone(world, "old")
    await expire(world.stage)
    pool = await world.stage.kube.get(PROVISIONERS, "default")
    assert pool["spec"]["ttlSecondsUntilExpired"] == world.stage.settings.expire_seconds
    assert world.failed_checks() == {}


def budget_that_counts(world: DemoWorld) -> None:
    """As the controller of budgets leaves it."""
    world.store.create(
        "poddisruptionbudgets", budget(most_unavailable=1), group="policy", namespace="default"
    )
    world.store.patch(
        "poddisruptionbudgets", "inflate", {"status": {"currentHealthy": 4}},
        group="policy", namespace="default", subresource="status",
    )  # fmt: skip


async def test_a_budget_holds_a_drain_until_it_is_deleted(world: DemoWorld) -> None:
    kube = world.stage.kube
    complete(world, "old", each=4)
    taken_over(world, "new")
    budget_that_counts(world)
    about = {"kind": "Node", "name": "old"}
    event = {"reason": "FailedDraining", "message": "pod stays", "involvedObject": about}
    await kube.create(EVENTS, {"metadata": {"name": "held"}, **event}, "default")

    async def drain() -> None:
        find = partial(world.store.find, "poddisruptionbudgets", "inflate")
        await wait_until(lambda: find(group="policy", namespace="default") is None, "it is gone")
        for number in range(4):
            await kube.delete(PODS, f"old-{number}", "default")

    await asyncio.gather(blocked_drain(world.stage), drain())
    assert world.failed_checks() == {}
    assert [one.detail for one in world.stage.checks[:2]] == [
        "pod stays",
        "4 of 4 pods run on old",
    ]


async def test_a_drain_that_no_event_explains_fails(world: DemoWorld) -> None:
    world.stage.scenario = replace(SMALL, timeout_seconds=-1.0)
    complete(world, "old", each=4)
    budget_that_counts(world)
    with pytest.raises(StoryFailed, match="no event explains it"):
        await blocked_drain(world.stage)
