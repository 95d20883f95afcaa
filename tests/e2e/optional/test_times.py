"""What happens by the clock, on a stack whose minutes are seconds: how soon a launcher sees what is new in AWS and
gives up a machine, and how long a scheduler waits after adding, deleting and failing."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from cli.operations.scheduler_status import ask
from local.stack import Stack
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.kube.resources import EC2_NODE_CLASSES
from tests.support.aws.emulator import whole_ec2
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.node_classes import (
    calls_of,
    class_with,
    instances_of,
    machines,
    one_of,
    order,
)
from tests.support.stories.playground import (
    Playground,
    ShellKubectl,
    playground_on,
    short_settings,
    stack_of,
    until,
)
from tests.support.stories.scale_down import (
    CONSOLIDATE,
    Pool,
    instance_type,
    name_of,
    passes,
    stays_because,
)

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL]
AFTER_ADD, AFTER_DELETE, UNNEEDED = 7, 4, 3
"""Seconds. Two machines are there and have taken their pods within the first."""
AT_ONCE = ("after-add=0", "after-delete=0", "after-failure=0")
"""Delays of a pool, as annotations."""
PREVIEW = "m5n.large"
NEVER = {"consolidateAfter": "Never"}
ZONE = "us-west-2a"
IMAGES = "amazon-eks-node-al2023-{}-standard-1.32-*"
PUBLISHED = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023"
IMAGE_TERMS = [{"ssmParameter": f"{PUBLISHED}/x86_64/standard/recommended/image_id"}]
ELSEWHERE = "#!/bin/sh\n/etc/eks/bootstrap.sh another-cluster\n"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = short_settings(
        tmp_path_factory.mktemp("stack"),
        SUBNET_REFRESH_INTERVAL="1s",
        AMI_REFRESH_INTERVAL="1s",
        LAUNCH_TIMEOUT="8s",
        REGISTRATION_TIMEOUT="8s",
        SCALE_DOWN_DELAY_AFTER_ADD=f"{AFTER_ADD}s",
        SCALE_DOWN_DELAY_AFTER_DELETE=f"{AFTER_DELETE}s",
        SCALE_DOWN_DELAY_AFTER_FAILURE="5s",
        SCALE_DOWN_UNNEEDED_TIME=f"{UNNEEDED}s",
        DISABLE_CLUSTER_STATE_OBSERVABILITY="true",
        RESYNC_SECONDS="1s",
    )
    with stack_of(replace(settings, preview_types=PREVIEW)) as stack:
        yield stack


@pytest.fixture
async def ground(stack: Stack) -> AsyncIterator[Playground]:
    async with playground_on(stack) as ground:
        yield ground


@pytest.fixture
def kubectl(ground: Playground) -> ShellKubectl:
    return ShellKubectl(ground.stack)


@pytest.fixture
async def ec2(ground: Playground) -> AsyncIterator[Any]:
    """A client that may do everything."""
    async with whole_ec2(ground.environment.aws_endpoint_url) as client:
        yield client


async def tag(ec2: Any, identity: str, key: str, value: str) -> None:
    await ec2.create_tags(Resources=[identity], Tags=[{"Key": key, "Value": value}])


async def image_of(ec2: Any, architecture: str) -> str:
    """The id of a published image."""
    named = [{"Name": "name", "Values": [IMAGES.format(architecture)]}]
    return str((await ec2.describe_images(Filters=named))["Images"][0]["ImageId"])


async def class_lists(ground: Playground, field: str, *ids: str) -> None:
    """Wait until the class's status has these, in any order."""

    async def listed() -> bool:
        status = (await ground.kube.get(EC2_NODE_CLASSES, "fresh")).get("status") or {}
        return {one["id"] for one in status.get(field) or ()} >= {*ids}

    await until(listed, f"status.{field} has {ids}")


async def looked_up(ground: Playground, action: str) -> None:
    """Wait until AWS was asked twice more: the second time began after this."""
    before = len(await calls_of(ground, action))

    async def again() -> bool:
        return len(await calls_of(ground, action)) >= before + 2

    await until(again, f"{action} is called again")


async def test_new_subnets_and_images_are_used_without_an_edit_of_the_class(
    ground: Playground, kubectl: ShellKubectl, ec2: Any
) -> None:
    """Of the subnets of a zone a machine gets the one with most free addresses, as they are now."""
    cluster = ground.environment.cluster_name
    discovery = [{"Name": "tag:karpenter.sh/discovery", "Values": [cluster]}]
    subnets = (await ec2.describe_subnets(Filters=discovery))["Subnets"]
    (first,) = (one for one in subnets if one["AvailabilityZone"] == ZONE)
    old, new = [await image_of(ec2, architecture) for architecture in ("x86_64", "arm64")]
    await tag(ec2, old, "line", "ours")
    template = await class_with(
        ground,
        kubectl,
        "fresh",
        amiFamily="AL2023",
        amiSelectorTerms=[{"tags": {"line": "ours"}}],
    )
    await class_lists(ground, "amis", old)

    await tag(ec2, new, "line", "ours")
    made = await ec2.create_subnet(
        VpcId=first["VpcId"], CidrBlock="192.168.96.0/20", AvailabilityZone=ZONE
    )
    second = made["Subnet"]
    await tag(ec2, second["SubnetId"], "karpenter.sh/discovery", cluster)
    await class_lists(ground, "amis", old, new)
    await class_lists(ground, "subnets", first["SubnetId"], second["SubnetId"])

    pool = Pool(ground, kubectl, "NodePool", "fresh")
    in_zone = one_of("topology.kubernetes.io/zone", ZONE)
    await pool.apply(machines("m5", in_zone), template, disruption=NEVER)
    await order(ground, "subnets", subnetId=first["SubnetId"], freeAddresses=500)
    await looked_up(ground, "DescribeSubnets")
    await pool.run(1, cpu="1500m")
    before = await pool.serving(1)
    assert [one["SubnetId"] for one in await instances_of(ground, before)] == [second["SubnetId"]]
    await order(ground, "subnets", subnetId=second["SubnetId"], freeAddresses=100)
    await looked_up(ground, "DescribeSubnets")
    await pool.scale(2)
    after = await pool.serving(2, nodes=2)
    used = sorted(one["SubnetId"] for one in await instances_of(ground, after))
    assert used == sorted((first["SubnetId"], second["SubnetId"]))


async def is_ready(ground: Playground, name: str) -> bool:
    """With its dry runs of CreateFleet behind it."""
    return (await ground.condition(EC2_NODE_CLASSES, name, "Ready")).get("status") == "True"


async def lost_pool(ground: Playground, kubectl: ShellKubectl, **spec: Any) -> Pool:
    """A pool of a ready class of the family Custom, whose images boot as EKS's do."""
    await class_with(ground, kubectl, "lost", amiSelectorTerms=IMAGE_TERMS, **spec)
    await until(lambda: is_ready(ground, "lost"), "the class is ready")
    pool = Pool(ground, kubectl, "NodePool", "lost")
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "lost"}
    await pool.apply(machines("c5"), {"nodeClassRef": reference}, disruption=NEVER)
    return pool


async def first_machine(pool: Pool, field: str) -> Json:
    """Wait until a machine has this field of its status, or is there at all."""

    async def found() -> Json:
        machines = await pool.machines()
        there = (one for one in machines if not field or one.get("status", {}).get(field))
        return next(there, {})

    return await until(found, f"a machine has {field or 'a name'}")


def uid_of(raw: Json) -> str:
    """A name is not enough: the same plan gives the next machine the same name."""
    return str(raw["metadata"]["uid"])


async def test_a_machine_whose_node_never_joins_is_given_up_and_its_pod_gets_another(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """Instances boot for another cluster, until the class is mended."""
    pool = await lost_pool(ground, kubectl, amiFamily="Custom", userData=ELSEWHERE)
    await pool.run(1, cpu="1500m")
    alone = await first_machine(pool, "providerID")
    assert "no node registered within 8 s" in await pool.told("FailedRegistration", name_of(alone))
    await class_with(ground, kubectl, "lost", amiFamily="AL2023", amiSelectorTerms=IMAGE_TERMS)
    await pool.serving(1)
    assert uid_of(alone) not in map(uid_of, await pool.machines())


@pytest.mark.nightly
async def test_a_machine_without_an_instance_is_given_up_and_its_pod_gets_another(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """EC2 refuses every launch. The first machine stays until EC2's lists would surely have its instance."""
    pool = await lost_pool(ground, kubectl, amiFamily="AL2023")
    await order(
        ground, "faults", action="CreateFleet", code="RequestLimitExceeded", status=503, seconds=600
    )
    await pool.run(1, cpu="1500m")
    refused = await first_machine(pool, "")
    assert "no instance within 8 s" in await pool.told("FailedLaunch", name_of(refused))
    await order(ground, "clear")
    await pool.serving(1, seconds=2 * ALL_LISTED_SECONDS)
    assert uid_of(refused) not in map(uid_of, await pool.machines())


def times(objects: list[Json], field: str) -> list[float]:
    """When they were created or deleted, in seconds since the epoch; of those that were."""
    return [
        datetime.fromisoformat(one["metadata"][field]).timestamp()
        for one in objects
        if one["metadata"].get(field)
    ]


async def delayed(ground: Playground, word: str) -> None:
    """Wait until the scheduler says that emptiness and consolidation wait for this."""
    url = ground.environment.services["scheduler"] + "/status"

    async def waits() -> bool:
        texts = (await asyncio.to_thread(ask, url))["disruption"]["delayed"].values()
        return any(word in text for text in texts)

    await until(waits, f"scale-down waits, as {word}")


async def test_empty_nodes_wait_after_a_machine_was_created_and_after_one_was_deleted(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """The API server's times have whole seconds."""
    pool = Pool(ground, kubectl, "NodePool", "slow")
    await pool.apply_class()
    one_by_one = {**CONSOLIDATE, "budgets": [{"nodes": "1"}]}
    await pool.apply(machines("r5"), disruption=one_by_one)
    await pool.run(2, cpu="1500m")
    await delayed(ground, "a machine was created")
    await pool.serving(2, nodes=2)
    created = max(times(await pool.machines(), "creationTimestamp"))
    await pool.scale(0)
    deleted = set[float]()

    async def first_goes() -> bool:
        deleted.update(times(await pool.machines(), "deletionTimestamp"))
        return bool(deleted)

    async def second_goes() -> bool:
        deleted.update(times(await pool.machines(), "deletionTimestamp"))
        return len(deleted) == 2

    await until(first_goes, "the first machine goes")
    await delayed(ground, "a machine was deleted")
    await until(second_goes, "the second machine goes")
    assert min(deleted) - created >= AFTER_ADD - 1
    assert max(deleted) - min(deleted) >= AFTER_DELETE - 1


async def series(ground: Playground, service: str) -> set[str]:
    """Names of the metrics that have a value."""
    url = ground.environment.services[service] + "/metrics"

    def read() -> str:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())

    lines = (await asyncio.to_thread(read)).splitlines()
    return {line.partition("{")[0].partition(" ")[0] for line in lines if line[:1] not in ("", "#")}


async def test_a_pool_with_delays_of_its_own_goes_by_its_own_nodes(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """Both were created a moment ago. One pool waits for an hour, the other only until its node was not needed for as
    long as the cluster asks of pools with the default of consolidateAfter."""
    patient, hasty = (Pool(ground, kubectl, "NodePool", name) for name in ("patient", "hasty"))
    await patient.apply_class()
    for pool, kind, delays in ((patient, "r6a", ("after-add=1h",)), (hasty, "m6a", AT_ONCE)):
        await pool.apply(machines(kind), disruption=CONSOLIDATE)
        settings = [f"dovetail.sh/scale-down-delay-{delay}" for delay in delays]
        await kubectl("annotate", "nodepool", pool.name, *settings)
        await pool.run(1, cpu="1500m")
    nodes = {pool.name: (await pool.serving(1))[0] for pool in (patient, hasty)}
    await asyncio.gather(patient.scale(0), hasty.scale(0))
    leaving: list[Json] = []

    async def goes() -> bool:
        leaving.extend(one for one in await hasty.machines() if times([one], "deletionTimestamp"))
        return bool(leaving)

    await until(goes, "the node of the hasty pool goes")
    unneeded = datetime.fromisoformat(leaving[0]["status"]["lastPodEventTime"]).timestamp()
    assert min(times(leaving, "deletionTimestamp")) - unneeded >= UNNEEDED - 1

    async def explained() -> bool:
        told = await stays_because(ground, name_of(nodes["patient"]))
        return any("of the pool was created less than 3600 s ago" in one["text"] for one in told)

    await until(explained, "explain names the delay of the patient pool")
    await hasty.gone()
    assert [name_of(one) for one in await patient.nodes()] == [name_of(nodes["patient"])]
    assert await series(ground, "scheduler") & {"karpenter_nodes_allocatable"} == set()
    assert await series(ground, "watcher") & {"karpenter_pods_state"} == set()
    after_add = "dovetail.sh/scale-down-delay-after-add=0"
    await kubectl("annotate", "--overwrite", "nodepool", patient.name, after_add)
    await patient.gone()


async def test_a_pool_whose_drift_fails_is_left_alone_and_the_others_drift(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """EC2 has no machine that could replace the first pool's. Meanwhile no empty node goes, as a disruption failed."""
    stuck, sound = (Pool(ground, kubectl, "NodePool", name) for name in ("stuck", "sound"))
    await stuck.apply_class()
    first = {}
    for pool, kind in ((stuck, "m5a"), (sound, "c5a")):
        await pool.apply(machines(kind), disruption=NEVER)
        await pool.run(1, cpu="1500m")
        (first[pool.name],) = map(name_of, await pool.serving(1))
    await order(ground, "capacity", instanceType="m5a.*", zone="*", capacityType="*", available=0)
    edit = {"template": {"metadata": {"labels": {"edition": "second"}}}}
    await stuck.change(**edit)
    assert "a replacement failed" in await stuck.told("DisruptionBackoff", stuck.name)
    await delayed(ground, "a disruption was rolled back")
    await sound.change(**edit)

    async def replaced() -> bool:
        names = [name_of(node) for node in await sound.nodes()]
        return len(names) == 1 and first["sound"] not in names

    await until(replaced, "the node of the sound pool is another one")
    assert [name_of(node) for node in await stuck.nodes()] == [first["stuck"]]


async def test_a_type_without_a_price_is_bought_once_an_overlay_says_one(
    ground: Playground, kubectl: ShellKubectl
) -> None:
    """A preview: EC2 has it, no price list names it, and CreateFleet refuses to choose it by price. The price is one
    pool's: the other, which allows the same types, buys none."""
    pool, other = (Pool(ground, kubectl, "NodePool", name) for name in ("preview", "no-preview"))
    await pool.apply_class()
    for one in (pool, other):
        await one.apply(machines("m5n"), disruption=NEVER)
        await one.run(1, cpu="1500m")
    await passes(ground, 3)
    assert await pool.machines() == []
    rules = [
        one_of("node.kubernetes.io/instance-type", PREVIEW),
        one_of("karpenter.sh/nodepool", pool.name),
    ]
    await kubectl.apply(
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "preview"},
            "spec": {"requirements": rules, "price": "0.08"},
        }
    )
    (node,) = await pool.serving(1)
    assert instance_type(node) == PREVIEW
    await passes(ground, 3)
    assert await other.machines() == []
    await kubectl("delete", "nodeoverlay", "preview")
