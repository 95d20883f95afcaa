"""The end of an EC2NodeClass (EC-20, LCH-22)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.node_class.controller import NodeClasses
from services.launcher.node_class.finalizer import WAITING_SECONDS, uses, with_finalizer
from services.launcher.node_class.instance_profiles import profile_path
from services.launcher.ports import Ports
from shared.cloud.client.session import Cloud
from shared.domain import labels as keys
from shared.errors import NotFound, Unauthorized
from shared.kube.client import Kube
from shared.kube.resources import EC2_NODE_CLASSES, EVENTS, LAUNCH_RECORDS, NODE_CLAIMS
from tests.services.conftest import CLUSTER, Control, create_node_claim, create_node_class
from tests.support.clock.fake import FakeClock

KEY = "EC2NodeClass/default"
OWNER = {f"kubernetes.io/cluster/{CLUSTER}": "owned", keys.NODE_CLASS: "default"}


@pytest.fixture
async def node_classes(ports: Ports) -> NodeClasses:
    """With the class ``default``, resolved: it has a profile in AWS."""
    made = NodeClasses(ports)
    await create_node_class(ports.kube)
    await made.refresh_all()
    return made


async def path(kube: Kube) -> str:
    uid = (await kube.get(EC2_NODE_CLASSES, "default"))["metadata"]["uid"]
    return profile_path(CLUSTER, "us-west-2", uid)


async def is_gone(kube: Kube) -> bool:
    try:
        await kube.get(EC2_NODE_CLASSES, "default")
    except NotFound:
        return True
    return False


async def test_a_class_without_machines_takes_its_profile_and_templates_along(
    kube: Kube, cloud: Cloud, node_classes: NodeClasses
) -> None:
    data = {"ImageId": "ami-0123456789abcdef0"}
    await cloud.launch_templates.ensure("ours", data, OWNER)
    await cloud.launch_templates.ensure("theirs", data, {**OWNER, keys.NODE_CLASS: "other"})
    profiles = await path(kube)
    assert len(await cloud.iam.instance_profiles(profiles)) == 1
    await kube.delete(EC2_NODE_CLASSES, "default")
    await node_classes.refresh_one(KEY)
    assert await is_gone(kube)
    assert await cloud.iam.instance_profiles(profiles) == []
    left = await cloud.launch_templates.tagged({keys.NODE_CLASS: "*"})
    assert [template.name for template in left] == ["theirs"]


async def test_a_class_waits_for_its_machines_and_says_so_every_ten_minutes(
    kube: Kube, cloud: Cloud, node_classes: NodeClasses, clock: FakeClock, events: Any
) -> None:
    await create_node_claim(kube)
    await kube.delete(EC2_NODE_CLASSES, "default")

    async def told() -> int:
        shown: list[tuple[str, str]] = await events()
        return shown.count(("WaitingOnNodeClaimTermination", "default"))

    for _ in range(2):
        await node_classes.refresh_all()
    assert await told() == 1
    clock.advance(WAITING_SECONDS)
    await node_classes.refresh_all()
    assert await told() == 2
    (event, *_) = (await kube.list(EVENTS)).items
    assert event["message"].endswith("for default-c")
    assert len(await cloud.iam.instance_profiles(await path(kube))) == 1
    await kube.patch(NODE_CLAIMS, "default-c", {"metadata": {"finalizers": []}})
    await kube.delete(NODE_CLAIMS, "default-c")
    await node_classes.refresh_all()
    assert await is_gone(kube)


async def test_a_refused_deletion_keeps_the_class_until_it_works(
    kube: Kube, control: Control, node_classes: NodeClasses
) -> None:
    """Nothing may be left behind in AWS unseen."""
    await kube.delete(EC2_NODE_CLASSES, "default")
    control.post("faults", action="DeleteInstanceProfile", code="AccessDenied", status=403)
    with pytest.raises(Unauthorized):
        await node_classes.refresh_all()
    assert not await is_gone(kube)
    await node_classes.refresh_all()
    assert await is_gone(kube)


async def test_a_template_of_an_open_launch_keeps_its_class(
    kube: Kube, cloud: Cloud, node_classes: NodeClasses
) -> None:
    """LCH-22: a launch that nobody wants any more may still be in progress."""
    template, _ = await cloud.launch_templates.ensure("ours", {"ImageId": "ami-1"}, OWNER)
    specification = {"LaunchTemplateId": template.id, "Version": "1"}
    spec = {
        "machines": [{"kind": "NodeClaim", "name": "gone", "uid": "1"}],
        "clientToken": "lr-1",
        "attempt": 0,
        "request": {"LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification}]},
        "images": {},
        "epoch": 0,
        "createdAt": "2026-01-01T00:00:00Z",
    }
    await kube.create(LAUNCH_RECORDS, {"metadata": {"name": "lr-1"}, "spec": spec})
    await kube.delete(EC2_NODE_CLASSES, "default")
    await node_classes.refresh_one(KEY)
    assert not await is_gone(kube)
    assert await cloud.launch_templates.named("ours") == template
    await kube.delete(LAUNCH_RECORDS, "lr-1")
    await node_classes.refresh_all()
    assert await is_gone(kube)


async def test_another_controllers_finalizer_is_left_alone(
    kube: Kube, node_classes: NodeClasses
) -> None:
    mine = {"metadata": {"finalizers": [keys.CLASS_FINALIZER, "example.com/mine"]}}
    await kube.patch(EC2_NODE_CLASSES, "default", mine)
    await kube.delete(EC2_NODE_CLASSES, "default")
    for _ in range(2):
        await node_classes.refresh_all()
    meta = (await kube.get(EC2_NODE_CLASSES, "default"))["metadata"]
    assert meta["finalizers"] == ["example.com/mine"]


def test_a_claim_counts_however_it_names_its_class() -> None:
    """F27: one that cannot be read must still hold its class."""
    named: dict[str, Any] = {"metadata": {}, "spec": {"nodeClassRef": {"name": "default"}}}
    labelled: dict[str, Any] = {"metadata": {"labels": {keys.NODE_CLASS: "default"}}, "spec": 7}
    other: dict[str, Any] = {"metadata": {"labels": None}, "spec": {"nodeClassRef": 7}}
    assert [uses(one, "default") for one in (named, labelled, other)] == [True, True, False]


def test_a_deleted_object_gets_no_new_finalizer() -> None:
    """The API server would refuse it."""
    assert with_finalizer({"metadata": {}}) == [keys.CLASS_FINALIZER]
    assert with_finalizer({"metadata": {"deletionTimestamp": "now"}}) is None
    assert with_finalizer({"metadata": {"finalizers": [keys.CLASS_FINALIZER]}}) is None
