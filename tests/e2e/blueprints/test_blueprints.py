"""The ten blueprints that people try first with Karpenter come out here as they do there: manifests of the same shape,
kubectl, and the outcome that a reader of theirs waits for. Minutes are seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from shared.domain import labels as keys
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.blueprints import (
    Blueprint,
    hosts,
    instance_type,
    label,
    name_of,
    system,
    zones,
)
from tests.support.stories.playground import Playground, ShellKubectl, until

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL]


@pytest.fixture
async def blueprint(playground: Playground, kubectl: ShellKubectl) -> AsyncIterator[Blueprint]:
    """Everything that was applied is deleted at the end, before the stack is looked at."""
    blueprint = Blueprint(playground, kubectl)
    yield blueprint
    await blueprint.delete()


@pytest.mark.nightly
async def test_ha_az_nodes_pods_spread_over_zones_and_nodes(blueprint: Blueprint) -> None:
    await blueprint.apply("pool", "ha-az-nodes")
    pods = await blueprint.running("spread", 6)
    used = [node for node in await blueprint.nodes() if name_of(node) in hosts(pods)]
    assert len(set(zones(used))) == 3
    assert min(zones(used).count(zone) for zone in set(zones(used))) >= 2
    rows = await blueprint.kubectl.rows("nodes", "-l", keys.NODE_POOL, "-L", OLD_TYPE)
    assert all("." in row[-1] for row in rows), rows


OLD_TYPE = "beta.kubernetes.io/instance-type"


@pytest.mark.nightly
async def test_od_spot_split_a_share_of_the_pods_is_on_demand(blueprint: Blueprint) -> None:
    await blueprint.apply("pool", "od-spot-split")
    pods = await blueprint.running("split", 10)
    nodes = {name_of(node): node for node in await blueprint.nodes("purpose=split")}
    shares = [label(nodes[pod["spec"]["nodeName"]], "capacity-share") for pod in pods]
    assert set(shares) >= {"1", "2", "3", "4"}
    assert 1 <= shares.count("1") <= 3
    markets = {
        (label(node, "capacity-share") == "1", label(node, keys.CAPACITY_TYPE))
        for node in nodes.values()
    }
    assert markets == {(True, keys.ON_DEMAND), (False, keys.SPOT)}


@pytest.mark.nightly
async def test_graviton_the_cheapest_machine_is_an_arm_one(blueprint: Blueprint) -> None:
    await blueprint.apply("pool", "graviton")
    await blueprint.running("flexible", 5)
    (first,) = await blueprint.nodes()
    assert label(first, keys.ARCH) == "arm64"
    assert label(first, keys.CAPACITY_TYPE) == keys.ON_DEMAND
    await blueprint.scale("deployment/arm", 5)
    pods = await blueprint.running("arm", 5)
    others = [node for node in await blueprint.nodes() if name_of(node) in hosts(pods)]
    markets = {(label(node, keys.ARCH), label(node, keys.CAPACITY_TYPE)) for node in others}
    assert ("arm64", keys.SPOT) in markets


@pytest.mark.nightly
async def test_batch_jobs_are_not_disturbed_and_leave_a_smaller_machine(
    blueprint: Blueprint,
) -> None:
    async with blueprint.ground.one_plan(2, "batch"):
        await blueprint.apply("pool", "batch-jobs")
    (large,) = await blueprint.settled(keys.NODE_POOL, lambda n: len(n) == 1, "one node")
    assert instance_type(large).endswith(".4xlarge")
    await blueprint.kubectl("wait", "--for=condition=Complete", "job/short", "--timeout=100s")

    async def blocked() -> bool:
        told = await blueprint.told("DisruptionBlocked", "Node")
        return any("do-not-disrupt" in text for text in told)

    await until(blocked, "the node is said to stay for the Job's sake")
    assert [name_of(node) for node in await blueprint.nodes()] == [name_of(large)]
    await blueprint.kubectl("wait", "--for=condition=Complete", "job/long", "--timeout=100s")
    (small,) = await blueprint.settled(
        keys.NODE_POOL,
        lambda nodes: [name_of(n) for n in nodes] != [name_of(large)] and len(nodes) == 1,
        "another node in its place",
    )
    assert instance_type(small).endswith(".xlarge")
    assert hosts(await blueprint.running("server", 1)) == {name_of(small)}


async def test_room_disks_and_gpus_at_once(blueprint: Blueprint) -> None:
    """Three blueprints whose machines do not meet, for the sake of time: each has its own market or family."""
    await blueprint.apply("pool", "stateful", "overprovision", "node-overlay-gpu")
    async with asyncio.TaskGroup() as group:
        group.create_task(placeholders_make_room_at_once(blueprint))
        group.create_task(pods_have_disks_in_one_zone(blueprint))
        group.create_task(four_pods_share_a_gpu(blueprint))


async def placeholders_make_room_at_once(blueprint: Blueprint) -> None:
    """overprovision."""
    selector = f"purpose=apps,{keys.CAPACITY_TYPE}={keys.ON_DEMAND}"
    await blueprint.running("placeholder", 4)
    before = {name_of(node) for node in await blueprint.nodes(selector)}
    await blueprint.scale("deployment/pipeline", 4)
    assert hosts(await blueprint.running("pipeline", 4)) <= before
    assert await blueprint.pods("placeholder", "Pending")
    await blueprint.running("placeholder", 4)
    assert {name_of(node) for node in await blueprint.nodes(selector)} > before
    await blueprint.scale("deployment/placeholder", 0)
    await blueprint.settled(
        selector, lambda nodes: len(nodes) <= len(before), "as many nodes as before"
    )


async def pods_have_disks_in_one_zone(blueprint: Blueprint) -> None:
    """stateful, as far as its pods run."""
    pods = await blueprint.running("database", 3)
    assert sorted(map(name_of, pods)) == ["database-0", "database-1", "database-2"]
    used = [node for node in await blueprint.nodes() if name_of(node) in hosts(pods)]
    assert set(zones(used)) == {"us-west-2b"}
    assert {status for status, _ in (await volumes(blueprint)).values()} == {"Bound"}
    assert len(await blueprint.kubectl.rows("volumeattachments")) == 3


async def four_pods_share_a_gpu(blueprint: Blueprint) -> None:
    """node-overlay, its second scenario."""
    selector = f"{keys.NODE_POOL}=sliced"
    await blueprint.running("inference", 4)
    (node,) = await blueprint.nodes(selector)
    assert instance_type(node) == "g4dn.xlarge"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    await blueprint.scale("deployment/inference", 8)
    await blueprint.running("inference", 8)
    assert [instance_type(node) for node in await blueprint.nodes(selector)] == ["g4dn.xlarge"] * 2


@pytest.mark.nightly
async def test_stateful_pods_come_back_to_their_disks(blueprint: Blueprint) -> None:
    await blueprint.apply("pool", "stateful")
    await pods_have_disks_in_one_zone(blueprint)
    before = await volumes(blueprint)
    await blueprint.kubectl("delete", "pod", "database-1")
    await blueprint.running("database", 3)
    await blueprint.scale("statefulset/database", 0)
    await blueprint.no_nodes()
    assert await blueprint.kubectl.rows("volumeattachments") == []
    await blueprint.scale("statefulset/database", 3)
    await pods_have_disks_in_one_zone(blueprint)
    assert await volumes(blueprint) == before


async def volumes(blueprint: Blueprint) -> dict[str, tuple[str, str]]:
    """Claim -> (status, volume)."""
    return {row[0]: (row[1], row[2]) for row in await blueprint.kubectl.rows("pvc")}


@pytest.mark.nightly
async def test_no_node_gets_more_volumes_than_it_attaches(blueprint: Blueprint) -> None:
    """Not one of the ten: what their reader asks next (SCH-91)."""
    async with blueprint.ground.one_plan(30, "shards"):
        await blueprint.apply("pool", "attach-limit")
    await blueprint.running("shards", 30)
    listed = await blueprint.kubectl.rows("volumeattachments", "-o", NODE_COLUMN)
    counts = Counter(node for (node,) in listed)
    assert sum(counts.values()) == 30
    assert max(counts.values()) <= 26
    assert len(counts) == 2


NODE_COLUMN = "custom-columns=NODE:.spec.nodeName"


@pytest.mark.nightly
async def test_disruption_budgets_hold_the_drift_to_another_system(blueprint: Blueprint) -> None:
    await blueprint.apply("disruption-budgets")
    pods = await blueprint.running("budgeted", 3)
    assert len(hosts(pods)) == 3
    first = {name_of(node) for node in await blueprint.nodes()}
    change = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}
    await blueprint.patch("ec2nodeclass/budgeted", change)

    async def blocked() -> bool:
        told = await blueprint.told("DisruptionBlocked", "NodePool")
        drifted = "{.items[*].status.conditions[?(@.type=='Drifted')].status}"
        words = await blueprint.kubectl("get", "nodeclaims", "-o", f"jsonpath={drifted}")
        return bool(told) and words.split().count("True") == 3

    await until(blocked, "all have drifted, and the pool says that its budget holds them")
    assert {name_of(node) for node in await blueprint.nodes()} == first
    assert {system(node)[0] for node in await blueprint.nodes()} == {"Amazon Linux 2023"}
    await blueprint.patch("nodepool/budgeted", {"disruption": {"budgets": [{"nodes": "100%"}]}})
    await blueprint.settled(
        "purpose=budgeted",
        lambda nodes: all(system(n)[0].startswith("Bottlerocket") for n in nodes),
        "all nodes run Bottlerocket",
    )
    await blueprint.running("budgeted", 3)


@pytest.mark.nightly
async def test_node_overlay_the_newest_generation_is_bought(blueprint: Blueprint) -> None:
    await blueprint.apply("pool", "node-overlay-generation")
    await blueprint.running("newest", 2)
    generations = {label(n, GENERATION) for n in await blueprint.nodes()}
    assert generations == {"8"}
    ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"

    async def hold() -> bool:
        words = await blueprint.kubectl("get", "nodeoverlays", "-o", ready)
        return words.split() == ["True"] * 3

    await until(hold, "the overlays say that they hold")


GENERATION = "karpenter.k8s.aws/instance-generation"


@pytest.mark.nightly
async def test_static_nodepool_keeps_a_number_of_nodes(blueprint: Blueprint) -> None:
    await blueprint.apply("pool", "static-nodepool")
    await blueprint.settled("purpose=static", lambda nodes: len(nodes) == 1, "one node")
    await blueprint.scale("nodepool/static", 2)
    nodes = await blueprint.settled("purpose=static", lambda nodes: len(nodes) == 2, "two nodes")
    assert {instance_type(node) for node in nodes} == {"g4dn.xlarge"}

    async def shown() -> bool:
        return (await blueprint.kubectl.rows("nodepool", "static"))[0][2] == "2"

    await until(shown, "kubectl shows two nodes of the pool")


@pytest.mark.nightly
async def test_update_nodes_with_drift_to_another_version(blueprint: Blueprint) -> None:
    await blueprint.apply("update-nodes-with-drift")
    await blueprint.running("by-version", 3)
    (old,) = await blueprint.nodes("purpose=by-version")
    assert system(old)[1].startswith("v1.31.")
    terms = [{"name": "amazon-eks-node-al2023-*-standard-1.32-*", "owner": "amazon"}]
    await blueprint.patch("ec2nodeclass/by-version", {"amiSelectorTerms": terms})
    await blueprint.settled(
        "purpose=by-version",
        lambda nodes: all(system(node)[1].startswith("v1.32.") for node in nodes),
        "the nodes run the next version",
    )
    await blueprint.running("by-version", 3)
