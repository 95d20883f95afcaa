"""The emulator lets each service do what deploy/iam gives its role, and nothing else (IAM-01)."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from local.aws.iam.launches import tags_by_kind
from local.aws.iam.policies import access_key
from services.launcher.launch_template.content import instance_tags, template_data, template_tags
from services.launcher.launch_template.variants import Variant
from services.launcher.resolved_class import Resolved
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.ownership import cluster_tag
from shared.cloud.ec2.records import tag_specification
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import DovetailError, Unauthorized
from tests.services.conftest import CLUSTER, Control, control
from tests.support.planning.builders import make_machine, make_node_class

__all__ = ["control"]

Json = dict[str, Any]
As = Callable[[str], Any]
IMAGE = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
PROFILE = f"KarpenterNodeInstanceProfile-{CLUSTER}"


_numbers = itertools.count()


@pytest.fixture
async def as_(
    aws_emulator_url: str, control: Control, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[As]:
    """``await as_("launcher")``: AWS with the access key of this service; of nobody with any other word."""
    async with AsyncExitStack() as opened:

        async def connect(service: str) -> Cloud:
            known = {"launcher", "terminator", "interruption", "scheduler", "services"}
            key = access_key(service) if service in known else service
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
            cloud = await Cloud.connect(
                region="us-west-2", endpoint_url=aws_emulator_url, clock=SystemClock(),
                random=random.Random(1), user_agent="tests",
            )  # fmt: skip
            opened.push_async_callback(cloud.close)
            return cloud

        yield connect


async def launchable(
    cloud: Cloud, generation: str = V1, *, spot: bool = False, without: Iterable[str] = ()
) -> Json:
    """A CreateFleet request as the launcher makes it; ``without``: resource types whose tags are left out."""
    machine: Machine = make_machine(generation_api=generation)
    node_class = make_node_class(generation_api=generation)
    groups = await cloud.ec2.security_groups(
        [SelectorTerm(tags={"karpenter.sh/discovery": CLUSTER})]
    )
    subnets = await cloud.ec2.subnets([SelectorTerm(tags={"karpenter.sh/discovery": CLUSTER})])
    image = await cloud.ssm.parameter(IMAGE)
    resolved: Any = Resolved(node_class, tuple(subnets), tuple(groups), None, PROFILE)  # type: ignore[arg-type]
    data = template_data(machine, resolved, Variant(image, spot=spot), "", cluster=CLUSTER)
    kept = [one for one in data["TagSpecifications"] if one["ResourceType"] not in without]
    data = {**data, "TagSpecifications": kept}
    tags = template_tags(machine, node_class, CLUSTER)
    name = f"test-{generation}-{spot}-{'-'.join(without)}".replace("/", "-")
    made, _ = await cloud.launch_templates.ensure(name, data, tags)
    of_instances = instance_tags(machine, node_class, CLUSTER)
    named = {"LaunchTemplateId": made.id, "Version": str(made.version)}
    override = {"InstanceType": "m5.large", "SubnetId": subnets[0].id, "ImageId": image}
    target = {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "spot" if spot else "on-demand",
    }
    return {
        "Type": "instant",
        "ClientToken": name,
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": named, "Overrides": [override]}],
        "TargetCapacitySpecification": target,
        "TagSpecifications": [
            tag_specification(kind, of_instances) for kind in ("instance", "volume", "fleet")
        ],
    }


@pytest.mark.parametrize("generation", [V1, V1ALPHA5])
@pytest.mark.parametrize("spot", [False, True])
async def test_the_launcher_may_launch_what_it_asks_for(
    as_: As, generation: str, spot: bool
) -> None:
    """LCH-24, LCH-56, IAM-01: templates, fleets, instances, in both generations."""
    cloud = await as_("launcher")
    result = await cloud.ec2.create_fleet(await launchable(cloud, generation, spot=spot))
    assert len(result.instances) == 1
    assert result.errors == ()


@pytest.mark.parametrize("missing", ["network-interface", "spot-instances-request"])
async def test_without_tags_on_all_that_is_made_no_instance_starts(
    as_: As, control: Control, missing: str
) -> None:
    """As launch templates were before: EC2 tells it in the errors of the fleet."""
    cloud = await as_("launcher")
    request = await launchable(cloud, spot=True, without=[missing])
    result = await cloud.ec2.create_fleet(request)
    assert result.instances == ()
    assert {one.code for one in result.errors} == {"UnauthorizedOperation"}
    assert f"{missing}/*" in result.errors[0].message
    assert control.alive() == []


async def test_a_fleet_without_our_tags_is_refused_as_a_whole(as_: As) -> None:
    cloud = await as_("launcher")
    request = {**await launchable(cloud), "TagSpecifications": []}
    with pytest.raises(Unauthorized, match="ec2:CreateFleet on resource"):
        await cloud.ec2.create_fleet(request)


async def test_a_dry_run_is_denied_as_the_call_would_be(as_: As) -> None:
    cloud = await as_("launcher")
    request = await launchable(cloud)
    await cloud.dry_runs.create_fleet(request)
    with pytest.raises(Unauthorized):
        await cloud.dry_runs.create_fleet({**request, "TagSpecifications": []})


async def started(cloud: Cloud, tags: dict[str, str]) -> str:
    """An instance that nobody restricts: its id."""
    request = await launchable(cloud)
    request["TagSpecifications"] = [tag_specification("instance", tags)]
    request["ClientToken"] = f"test-{next(_numbers)}"
    (instance,) = (await cloud.ec2.create_fleet(request)).instances
    return str(instance.id)


OURS = {cluster_tag(CLUSTER): "owned", keys.NODE_POOL: "default"}
OURS_V1ALPHA5 = {cluster_tag(CLUSTER): "owned", keys.PROVISIONER_NAME: "default"}
FOREIGN = [
    {"Name": "database"},
    {cluster_tag("other"): "owned", keys.NODE_POOL: "default"},
    {cluster_tag(CLUSTER): "owned"},
    {cluster_tag(CLUSTER): "shared", keys.NODE_POOL: "default"},
]


@pytest.mark.parametrize("tags", [OURS, OURS_V1ALPHA5])
async def test_only_the_terminator_may_terminate(
    as_: As, control: Control, tags: dict[str, str]
) -> None:
    instance = await started(await as_("anybody"), tags)
    for service in ("launcher", "interruption", "scheduler"):
        cloud = await as_(service)
        with pytest.raises(Unauthorized, match="ec2:TerminateInstances"):
            await cloud.ec2.terminate([instance])
    assert control.alive() == [instance]
    await (await as_("terminator")).ec2.terminate([instance])
    assert control.states()[instance] in ("shutting-down", "terminated")


@pytest.mark.parametrize("tags", FOREIGN)
async def test_the_terminator_may_terminate_only_its_clusters_instances(
    as_: As, control: Control, tags: dict[str, str]
) -> None:
    instance = await started(await as_("anybody"), tags)
    with pytest.raises(Unauthorized):
        await (await as_("terminator")).ec2.terminate([instance])
    assert control.alive() == [instance]


async def test_the_terminator_may_not_launch(as_: As) -> None:
    request = await launchable(await as_("anybody"))
    with pytest.raises(Unauthorized, match="ec2:CreateFleet"):
        await (await as_("terminator")).ec2.create_fleet(request)


async def test_only_templates_of_the_cluster_may_be_used_and_deleted(as_: As) -> None:
    """T-07: one that a user keeps needs the cluster's tag."""
    admin, launcher = await as_("anybody"), await as_("launcher")
    request = await launchable(admin)
    foreign, _ = await admin.launch_templates.ensure(
        "foreign", {"ImageId": await admin.ssm.parameter(IMAGE)}, {"owner": "them"}
    )
    named = {"LaunchTemplateId": foreign.id, "Version": "1"}
    config = {**request["LaunchTemplateConfigs"][0], "LaunchTemplateSpecification": named}
    with pytest.raises(Unauthorized, match="launch-template/"):
        await launcher.ec2.create_fleet({**request, "LaunchTemplateConfigs": [config]})
    with pytest.raises(Unauthorized, match="ec2:DeleteLaunchTemplate"):
        await launcher.launch_templates.delete(foreign)


async def test_a_template_that_a_user_keeps_starts_machines_when_it_is_tagged(
    as_: As, control: Control
) -> None:
    """T-07: with a key pair, which only such a template can name, and with the tags that the docs ask for."""
    admin = await as_("anybody")
    request = await launchable(admin, V1ALPHA5)
    ours = tags_by_kind(request["TagSpecifications"])["instance"]
    data = {
        "ImageId": await admin.ssm.parameter(IMAGE),
        "KeyName": "people",
        "TagSpecifications": [tag_specification("network-interface", ours)],
    }
    kept, _ = await admin.launch_templates.ensure("own", data, {cluster_tag(CLUSTER): "owned"})
    named = {"LaunchTemplateId": kept.id, "Version": str(kept.version)}
    config = {**request["LaunchTemplateConfigs"][0], "LaunchTemplateSpecification": named}
    result = await (await as_("launcher")).ec2.create_fleet(
        {**request, "LaunchTemplateConfigs": [config]}
    )
    assert result.errors == ()
    assert len(control.alive()) == 1


async def test_the_launcher_names_instances_and_nothing_more(as_: As) -> None:
    """LCH-56: Name and claim, of our own."""
    admin, launcher = await as_("anybody"), await as_("launcher")
    ours = await started(admin, OURS)
    await launcher.ec2.tag([ours], {"Name": "node-1", keys.NODE_CLAIM_TAG: "default-a"})
    with pytest.raises(Unauthorized):
        await launcher.ec2.tag([ours], {keys.NODE_POOL: "other"})
    foreign = await started(admin, {"Name": "database"})
    with pytest.raises(Unauthorized):
        await launcher.ec2.tag([foreign], {"Name": "node-1"})


async def test_the_interruption_service_reads_its_queue_and_launches_nothing(as_: As) -> None:
    cloud = await as_("interruption")
    queue = await cloud.sqs.queue_url(CLUSTER)
    assert queue.endswith(CLUSTER)
    with pytest.raises(Unauthorized):
        await cloud.sqs.queue_url("another")
    with pytest.raises(Unauthorized):
        await (await as_("launcher")).sqs.queue_url(CLUSTER)


async def test_instance_profiles_are_made_for_the_node_roles_alone(as_: As) -> None:
    """IAM-01: PassRole names one role, or a beginning of names."""
    cloud = await as_("launcher")
    tags = {cluster_tag(CLUSTER): "owned", "topology.kubernetes.io/region": "us-west-2"}
    await cloud.iam.ensure_instance_profile(
        "ours", path="/karpenter/", role=f"KarpenterNodeRole-{CLUSTER}", tags=tags
    )
    with pytest.raises(Unauthorized, match="iam:PassRole"):
        await cloud.iam.ensure_instance_profile(
            "more", path="/karpenter/", role=f"{CLUSTER}-cluster", tags=tags
        )
    with pytest.raises(Unauthorized, match="iam:CreateInstanceProfile"):
        await cloud.iam.ensure_instance_profile(
            "other", path="/karpenter/", role="x", tags={"a": "b"}
        )
    await cloud.iam.delete_instance_profile(await cloud.iam.instance_profile("ours"))


async def test_a_service_that_calls_nothing_may_do_nothing(as_: As) -> None:
    with pytest.raises(DovetailError, match="not authorized"):
        await (await as_("scheduler")).ec2.subnets([SelectorTerm(id="subnet-1")])


async def test_keys_of_people_and_tests_may_do_everything(as_: As, control: Control) -> None:
    cloud = await as_("anybody")
    await cloud.ec2.terminate([await started(cloud, {"Name": "database"})])
    assert control.alive() == []
