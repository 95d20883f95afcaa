"""Node classes of both generations against an API server and AWS (T-12, EC-15..22)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher import cluster
from services.launcher.node_class.controller import DISCOVERY_FRESH_SECONDS, NodeClasses
from services.launcher.ports import Ports
from shared.api.conditions import known_conditions
from shared.cloud.client.session import Cloud
from shared.domain import labels as keys
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import InsufficientCapacity, InvalidObject, NotFound, Throttled
from shared.kube.client import Kube
from shared.kube.resources import AWS_NODE_TEMPLATES, EC2_NODE_CLASSES
from tests.services.conftest import CLUSTER, CRDS, Control, create_node_class, create_pool
from tests.support.aws.emulator import make_placement_group, make_snapshot
from tests.support.clock.fake import FakeClock

V1_KEY, OLD_KEY = "EC2NodeClass/default", "AWSNodeTemplate/default"


@pytest.fixture
def node_classes(ports: Ports) -> NodeClasses:
    return NodeClasses(ports)


async def shown(kube: Kube, name: str = "default") -> dict[str, Any]:
    found: dict[str, Any] = (await kube.get(EC2_NODE_CLASSES, name))["status"]
    return found


def failing(status: dict[str, Any]) -> dict[str, str]:
    """Condition -> reason of those that are not True."""
    found = known_conditions(status)
    return {name: c.reason for name, c in found.items() if c.status != "True"}


def reads(control: Control, action: str) -> int:
    return sum(1 for call in control.get("calls")["calls"] if call["action"] == action)


async def test_both_generations_are_resolved_and_shown(
    kube: Kube, node_classes: NodeClasses, cloud: Cloud
) -> None:
    """T-12, EC-15, EC-16: namesakes of two kinds do not meet."""
    await create_pool(kube)
    await create_node_class(kube)
    await node_classes.refresh_all()
    new, old = await node_classes.resolve(V1_KEY), await node_classes.resolve(OLD_KEY)
    assert new.node_class.key == V1_KEY
    assert old.node_class.key == OLD_KEY
    assert new.images != old.images
    assert {subnet.zone for subnet in new.subnets} == {"us-west-2a", "us-west-2b", "us-west-2c"}
    status = await shown(kube)
    assert failing(status) == {}
    assert len(known_conditions(status)) == 8
    assert {one["id"] for one in status["amis"]} == set(new.images.ids)
    assert status["instanceProfile"] == new.profile
    assert (await cloud.iam.instance_profile(new.profile)).roles == (
        f"KarpenterNodeRole-{CLUSTER}",
    )
    template = (await kube.get(AWS_NODE_TEMPLATES, "default"))["status"]
    assert {one["id"] for one in template["amis"]} == set(old.images.ids)
    assert failing(template) == {}


async def test_a_class_that_was_written_while_it_was_looked_up_is_looked_up_again(
    kube: Kube, node_classes: NodeClasses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher puts its hash on a new class at the same moment; pods must not wait a minute for that."""
    await create_node_class(kube)
    write = kube.patch
    meddled: list[Any] = []

    async def meddle(*where: Any, **how: Any) -> Any:
        if how.get("subresource") == "status" and not meddled:
            meddled.append(True)
            note = {"metadata": {"annotations": {keys.CLASS_HASH: "1"}}}
            await write(EC2_NODE_CLASSES, "default", note)
        return await write(*where, **how)

    monkeypatch.setattr(kube, "patch", meddle)
    await node_classes.refresh_one(V1_KEY)
    assert meddled
    assert failing(await shown(kube)) == {}


async def test_every_part_that_fails_is_named_and_the_others_are_shown(
    kube: Kube, node_classes: NodeClasses, events: Any
) -> None:
    """EC-17: three mistakes are mended in one go."""
    nothing = [{"tags": {"no": "such"}}]
    await create_node_class(
        kube,
        subnetSelectorTerms=nothing,
        amiSelectorTerms=[{"id": "ami-0"}],
        amiFamily="AL2023",
        role="Nobody",
        placementGroupSelector={"name": "rack"},
    )
    await node_classes.refresh_all()
    status = await shown(kube)
    assert failing(status) == {
        "SubnetsReady": "SubnetsNotFound",
        "AMIsReady": "AMINotFound",
        "InstanceProfileReady": "InstanceProfileNotFound",
        "PlacementGroupReady": "PlacementGroupNotFound",
        "ValidationSucceeded": "DependenciesNotReady",
        "Ready": "NodeClassNotReady",
    }
    message = known_conditions(status)["Ready"].message
    for text in ("spec.subnetSelectorTerms: no subnet has tags no=such", "ami-0", "role Nobody"):
        assert text in message
    assert len(status["securityGroups"]) == 1
    assert ("NodeClassNotReady", "default") in await events()
    with pytest.raises(InvalidObject, match="role Nobody"):
        await node_classes.resolve(V1_KEY)


async def test_a_mended_class_is_ready_at_once(kube: Kube, node_classes: NodeClasses) -> None:
    await create_node_class(kube, role="Nobody")
    await node_classes.refresh_all()
    role = {"spec": {"role": f"KarpenterNodeRole-{CLUSTER}"}}
    await kube.patch(EC2_NODE_CLASSES, "default", role)
    await node_classes.refresh_one(V1_KEY)
    status = await shown(kube)
    assert failing(status) == {}
    generations = {one["observedGeneration"] for one in status["conditions"]}
    assert generations == {(await kube.get(EC2_NODE_CLASSES, "default"))["metadata"]["generation"]}


async def test_a_profile_that_stops_existing_leaves_the_status(
    kube: Kube, node_classes: NodeClasses
) -> None:
    await create_node_class(kube)
    await node_classes.refresh_all()
    await kube.patch(EC2_NODE_CLASSES, "default", {"spec": {"role": "Nobody"}})
    await node_classes.refresh_one(V1_KEY)
    assert "instanceProfile" not in await shown(kube)


async def test_looking_again_writes_nothing(
    kube: Kube, node_classes: NodeClasses, clock: FakeClock
) -> None:
    """Each write would wake everybody who watches."""
    await create_pool(kube)
    await create_node_class(kube)
    await create_node_class(kube, "bad", role="Nobody")
    await node_classes.refresh_all()

    async def versions() -> list[str]:
        listed = [
            *(await kube.list(EC2_NODE_CLASSES)).items,
            *(await kube.list(AWS_NODE_TEMPLATES)).items,
        ]
        return [one["metadata"]["resourceVersion"] for one in listed]

    before = await versions()
    clock.advance(DISCOVERY_FRESH_SECONDS)
    await node_classes.refresh_all()
    assert await versions() == before


async def test_the_finalizer_comes_before_anything_is_made(
    kube: Kube, node_classes: NodeClasses, control: Control
) -> None:
    """EC-20. Others' finalizers stay; AWSNodeTemplates have none."""
    await create_pool(kube)
    await create_node_class(kube, finalizers=["example.com/mine"])
    control.post("faults", action="CreateInstanceProfile", code="Throttling", status=400)
    with pytest.raises(Throttled):
        await node_classes.refresh_all()
    meta = (await kube.get(EC2_NODE_CLASSES, "default"))["metadata"]
    assert meta["finalizers"] == ["example.com/mine", keys.CLASS_FINALIZER]
    assert "finalizers" not in (await kube.get(AWS_NODE_TEMPLATES, "default"))["metadata"]


async def test_one_class_that_cannot_be_looked_up_does_not_stop_the_others(
    kube: Kube, node_classes: NodeClasses, control: Control
) -> None:
    """F27; the error is raised in the end, for the log and the status page."""
    for name in ("a", "b"):
        await create_node_class(kube, name)
    control.post("faults", action="CreateInstanceProfile", code="Throttling", status=400)
    with pytest.raises(Throttled):
        await node_classes.refresh_all()
    ready = [name for name in ("a", "b") if "status" in await kube.get(EC2_NODE_CLASSES, name)]
    assert len(ready) == 1
    assert failing(await shown(kube, ready[0])) == {}


async def test_a_missing_permission_is_said_on_the_class(
    kube: Kube, node_classes: NodeClasses, control: Control
) -> None:
    """EC-21: the role of the launcher may not make profiles."""
    await create_node_class(kube)
    control.post("faults", action="CreateInstanceProfile", code="AccessDenied", status=403)
    await node_classes.refresh_all()
    status = await shown(kube)
    assert failing(status) == {
        "InstanceProfileReady": "Unauthorized",
        "ValidationSucceeded": "DependenciesNotReady",
        "Ready": "NodeClassNotReady",
    }
    assert "iam:CreateInstanceProfile" in known_conditions(status)["Ready"].message


async def test_a_class_is_looked_up_once_a_minute(
    kube: Kube, node_classes: NodeClasses, control: Control, clock: FakeClock
) -> None:
    """LCH-10: subnets by selector; LCH-13: security groups by selector."""
    await create_node_class(kube)
    await node_classes.refresh_all()
    before = reads(control, "DescribeSubnets")
    await node_classes.resolve(V1_KEY)
    assert reads(control, "DescribeSubnets") == before
    clock.advance(DISCOVERY_FRESH_SECONDS)
    await node_classes.resolve(V1_KEY)
    assert reads(control, "DescribeSubnets") == before + 1


async def test_the_clusters_version_is_asked_every_five_minutes(
    node_classes: NodeClasses, control: Control, clock: FakeClock
) -> None:
    """EC-23: after an upgrade aliases lead to new images."""
    for _ in range(2):
        assert (await node_classes.cluster.described()).version == "1.32"
    assert reads(control, "DescribeCluster") == 1
    clock.advance(cluster.DESCRIPTION_FRESH_SECONDS)
    await node_classes.cluster.described()
    assert reads(control, "DescribeCluster") == 2


async def test_a_class_that_does_not_exist_is_not_found(node_classes: NodeClasses) -> None:
    for key in (V1_KEY, OLD_KEY, "default", "ConfigMap/default"):
        with pytest.raises(NotFound):
            await node_classes.resolve(key)
        await node_classes.refresh_one(key)


async def test_a_machine_does_not_wait_for_a_class_that_is_being_deleted(
    kube: Kube, node_classes: NodeClasses
) -> None:
    """EC-20: the class waits for its machines, so they must not wait for it."""
    await create_node_class(kube, finalizers=["example.com/mine"])
    await node_classes.refresh_all()
    await kube.delete(EC2_NODE_CLASSES, "default")
    await node_classes.refresh_one(V1_KEY)
    with pytest.raises(InsufficientCapacity, match="is being deleted"):
        await node_classes.resolve(V1_KEY)


async def test_a_cluster_with_the_kinds_of_one_generation_only_is_served(
    kube: Kube, node_classes: NodeClasses
) -> None:
    """API-01: kinds of v1alpha5; API-02: kinds of v1."""
    await create_node_class(kube)
    await kube.delete(CRDS, "awsnodetemplates.karpenter.k8s.aws")
    await node_classes.refresh_all()
    assert failing(await shown(kube)) == {}


async def test_a_class_that_may_not_launch_is_not_ready_and_the_others_are(
    kube: Kube, node_classes: NodeClasses, control: Control, events: Any
) -> None:
    """EC-18: before the first machine waits for it."""
    for name in ("a", "b"):
        await create_node_class(kube, name)
    denial = {"action": "RunInstances", "code": "UnauthorizedOperation", "status": 403}
    control.post("faults", **denial)
    await node_classes.refresh_all()
    reason = {"ValidationSucceeded": "RunInstancesAuthCheckFailed", "Ready": "NodeClassNotReady"}
    found = [failing(await shown(kube, name)) for name in ("a", "b")]
    assert reason in found
    assert {} in found
    denied = "ab"[found.index(reason)]
    assert ("NodeClassNotReady", denied) in await events()
    control.post("faults", **denial)
    with pytest.raises(InvalidObject, match="ec2:RunInstances"):
        await node_classes.resolve(f"EC2NodeClass/{denied}")
    await node_classes.refresh_all()
    assert failing(await shown(kube, denied)) == {}


@pytest.mark.slow
async def test_a_volume_too_small_for_its_snapshot_is_told_on_its_class_alone(
    kube: Kube, node_classes: NodeClasses, aws_emulator_url: str, events: Any
) -> None:
    """EC-12, both generations; other classes go on."""
    snapshot = await make_snapshot(aws_emulator_url, 40)
    ebs = {"volumeSize": "30Gi", "snapshotID": snapshot}
    await create_pool(kube)
    volumes = [{"deviceName": "/dev/xvdb", "ebs": ebs}]
    spec = {"spec": {"blockDeviceMappings": volumes}}
    await kube.patch(AWS_NODE_TEMPLATES, "default", spec)
    await create_node_class(kube, "bad", blockDeviceMappings=volumes)
    await create_node_class(kube, "good")
    await node_classes.refresh_all()
    bad = await shown(kube, "bad")
    assert failing(bad) == {"ValidationSucceeded": "VolumeTooSmall", "Ready": "NodeClassNotReady"}
    said = f"30Gi is too small for snapshot {snapshot}; give it 40Gi"
    assert said in known_conditions(bad)["Ready"].message
    old = (await kube.get(AWS_NODE_TEMPLATES, "default"))["status"]
    assert said in known_conditions(old)["Ready"].message
    assert failing(await shown(kube, "good")) == {}
    told = await events()
    assert {("NodeClassNotReady", "bad"), ("NodeClassNotReady", "default")} <= set(told)


async def test_snapshots_that_we_may_not_see_hold_nothing_up(
    kube: Kube, node_classes: NodeClasses, control: Control
) -> None:
    """Most policies for Karpenter lack ec2:DescribeSnapshots."""
    ebs = {"volumeSize": "30Gi", "snapshotID": "snap-00000000000000000"}
    await create_node_class(kube, blockDeviceMappings=[{"deviceName": "/dev/xvdb", "ebs": ebs}])
    control.post("faults", action="DescribeSnapshots", code="UnauthorizedOperation", status=403)
    await node_classes.refresh_all()
    assert failing(await shown(kube)) == {}


async def test_a_placement_group_is_looked_up_by_name(
    kube: Kube, node_classes: NodeClasses, aws_emulator_url: str
) -> None:
    """EC-06, EC-16: once it exists the class is ready."""
    await create_node_class(kube, placementGroupSelector={"name": "rack"})
    await node_classes.refresh_all()
    assert failing(await shown(kube))["PlacementGroupReady"] == "PlacementGroupNotFound"
    await make_placement_group(aws_emulator_url, "rack", "partition", 3)
    await node_classes.refresh_all()
    assert failing(await shown(kube)) == {}
    found = (await kube.get(EC2_NODE_CLASSES, "default"))["status"]["placementGroup"]
    assert (found["name"], found["partitions"]) == ("rack", 3), "the scheduler plans with them"
    assert found["strategy"] == "partition"


async def own_template(kube: Kube, name: str = "mine") -> None:
    """AWSNodeTemplate ``default`` that names a launch template of the user."""
    await create_pool(kube)
    spec = {"launchTemplate": name, "securityGroupSelector": None}
    await kube.patch(AWS_NODE_TEMPLATES, "default", {"spec": spec})


async def test_a_class_may_name_a_launch_template_of_the_user(
    kube: Kube, node_classes: NodeClasses, cloud: Cloud
) -> None:
    """T-07: its newest version, and the image that it starts."""
    image = (await cloud.ec2.images([SelectorTerm(name="amazon-eks-node-1.32-*")]))[0]
    made, _ = await cloud.launch_templates.ensure("mine", {"ImageId": image.id}, {"by": "me"})
    await own_template(kube)
    found = await node_classes.resolve(OLD_KEY)
    assert found.launch_template == made
    assert found.images.ids == (image.id,)
    assert found.security_groups == ()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "EC2 has no launch template mine"),
        ({"InstanceType": "m5.large"}, "launch template mine names no image"),
        (
            {"ImageId": "ami-00000000000000000"},
            "the image ami-00000000000000000 of launch template",
        ),
        ({"ImageId": "resolve:ssm:/no/such"}, "takes its image from resolve:ssm:/no/such"),
    ],
)
async def test_a_launch_template_that_cannot_be_used_is_told_on_the_class(
    kube: Kube, node_classes: NodeClasses, cloud: Cloud, data: Any, text: str
) -> None:
    """T-07: launchTemplate excludes other fields."""
    if data is not None:
        await cloud.launch_templates.ensure("mine", data, {"by": "me"})
    await own_template(kube)
    await node_classes.refresh_all()
    ready = known_conditions((await kube.get(AWS_NODE_TEMPLATES, "default"))["status"])["Ready"]
    assert ready.status == "False"
    assert ready.message.startswith("spec.launchTemplate: ")
    assert text in ready.message
