"""EC2 over the wire, against the emulator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shared.cloud.client.errors import IDEMPOTENT_PARAMETER_MISMATCH
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import Instance, tag_specification
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import (
    InvalidObject,
    LaunchRejected,
    NotFound,
    Throttled,
    Unauthorized,
    Unreachable,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

DISCOVERY = (SelectorTerm(tags={"karpenter.sh/discovery": "dovetail-local"}),)
UNKNOWN = "i-0123456789abcdef0"
IMAGE_PATH = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended"

Request = dict[str, Any]


def tagged(key: str, value: str) -> SelectorTerm:
    return SelectorTerm(tags={key: value})


async def fleet(
    cloud: Cloud, token: str, *types: str, count: int = 1, capacity_type: str = "on-demand"
) -> Request:
    """A pinned CreateFleet request for ``types`` in the first zone, tagged with ``token``."""
    subnet = min(await cloud.ec2.subnets(DISCOVERY), key=lambda found: found.zone)
    image = await cloud.ssm.parameter(f"{IMAGE_PATH}/image_id")
    groups = [group.id for group in await cloud.ec2.security_groups(DISCOVERY)]
    data = {"ImageId": image, "SecurityGroupIds": groups}
    template, _ = await cloud.launch_templates.ensure("test-fleet", data, {"test": "fleet"})
    override = {"SubnetId": subnet.id, "AvailabilityZone": subnet.zone}
    return {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateId": template.id,
                    "Version": str(template.version),
                },
                "Overrides": [{"InstanceType": name} | override for name in types],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": capacity_type,
        },
        "TagSpecifications": [tag_specification("instance", {"dovetail.sh/launch-token": token})],
    }


async def launched(cloud: Cloud, token: str) -> list[Instance]:
    return await cloud.ec2.instances(tags={"dovetail.sh/launch-token": token})


async def test_ping_proves_the_connection(cloud: Cloud) -> None:
    """OPS-12: checks at the start."""
    await cloud.ec2.ping()


async def test_ping_without_permission_names_it(cloud: Cloud, control: Any) -> None:
    """OPS-12: checks at the start."""
    await control.fault("DescribeInstanceTypes", "UnauthorizedOperation", status=403)
    with pytest.raises(Unauthorized, match="allow ec2:DescribeInstanceTypes"):
        await cloud.ec2.ping()


@pytest.mark.slow
async def test_instance_types_come_in_full_and_only_for_kubernetes(cloud: Cloud) -> None:
    """IT-01: discovery of types."""
    types = await cloud.ec2.instance_types()
    names = [one["InstanceType"] for one in types]
    assert len(names) == len(set(names)) > 500
    assert not any(name.startswith("mac") for name in names)
    assert {"VCpuInfo", "MemoryInfo", "NetworkInfo", "ProcessorInfo"} <= types[0].keys()


@pytest.mark.slow
async def test_offerings_and_spot_prices_name_the_regions_zones(cloud: Cloud) -> None:
    """IT-01: discovery of types; IT-06: spot prices."""
    zones = await cloud.ec2.zones()
    assert zones.keys() >= {"us-west-2a", "us-west-2b", "us-west-2c"}
    assert all(zone_id.startswith("usw2-az") for zone_id in zones.values())
    offered = await cloud.ec2.offerings()
    assert set(offered["m5.large"]) <= zones.keys()
    prices = await cloud.ec2.spot_prices()
    assert prices.prices[("m5.large", "us-west-2a")] > 0
    assert prices.faults == {}


async def test_subnets_are_found_by_tag_and_by_id(cloud: Cloud) -> None:
    """T-10: selectors; LCH-10: subnets by selector."""
    by_tag = await cloud.ec2.subnets(DISCOVERY)
    assert {subnet.zone for subnet in by_tag} == {"us-west-2a", "us-west-2b", "us-west-2c"}
    free = [subnet.available_ips for subnet in by_tag]
    assert free == sorted(free, reverse=True)
    ids = [SelectorTerm(id=by_tag[0].id), SelectorTerm(id="subnet-0")]
    assert await subnet_ids(cloud, *ids) == [by_tag[0].id]
    everything = sorted(subnet.id for subnet in by_tag)
    assert await subnet_ids(cloud, tagged("karpenter.sh/discovery", "*")) == everything
    assert await subnet_ids(cloud, tagged("karpenter.sh/discovery", "someone-else")) == []


async def subnet_ids(cloud: Cloud, *terms: SelectorTerm) -> list[str]:
    """Sorted: ended instances give their addresses back meanwhile, which changes the order."""
    return sorted(subnet.id for subnet in await cloud.ec2.subnets(terms))


async def test_what_several_terms_select_is_found_once(cloud: Cloud) -> None:
    """EC-01: subnet selector terms."""
    by_tag = await subnet_ids(cloud, *DISCOVERY)
    west_2b = tagged("Name", "*us-west-2b")
    terms = [west_2b, tagged("Name", "none"), SelectorTerm(id=by_tag[0]), *DISCOVERY]
    assert await subnet_ids(cloud, *terms) == by_tag
    assert [s.zone for s in await cloud.ec2.subnets([west_2b])] == ["us-west-2b"]


async def test_security_groups_are_found_by_tag_and_by_name(cloud: Cloud) -> None:
    """LCH-13: security groups by selector; EC-02: security group selector terms."""
    by_tag = await cloud.ec2.security_groups(DISCOVERY)
    assert [group.name for group in by_tag] == ["dovetail-local-node"]
    named = [SelectorTerm(name="dovetail-local-node")]
    assert await cloud.ec2.security_groups([*named, *DISCOVERY]) == by_tag
    assert await cloud.ec2.security_groups(named) == by_tag


async def test_an_empty_term_is_refused_before_any_call(cloud: Cloud) -> None:
    with pytest.raises(InvalidObject, match="subnetSelectorTerms"):
        await cloud.ec2.subnets([SelectorTerm()])


async def test_a_published_image_is_found_by_id_and_by_name_and_owner(cloud: Cloud) -> None:
    """LCH-03: paths of AL2023 images; LCH-08: the newest image that suits."""
    image_id = await cloud.ssm.parameter(f"{IMAGE_PATH}/image_id")
    (image,) = await cloud.ec2.images([SelectorTerm(id=image_id)])
    assert (image.id, image.architecture) == (image_id, "x86_64")
    named = SelectorTerm(name=image.name, owner="602401143452")
    assert await cloud.ec2.images([named, SelectorTerm(id=image_id)]) == [image]
    foreign = SelectorTerm(name=image.name, owner="111122223333")
    assert await cloud.ec2.images([foreign]) == []


async def test_a_fleet_launches_and_its_instance_is_listed_with_everything(cloud: Cloud) -> None:
    """LCH-50: form of the CreateFleet request; LCH-83: which instances are listed."""
    request = await fleet(cloud, "launch-1", "m5.large", capacity_type="spot")
    result = await cloud.ec2.create_fleet(request)
    (made,) = result.instances
    assert (made.instance_type, made.zone, made.capacity_type) == ("m5.large", "us-west-2a", "spot")
    (seen,) = await launched(cloud, "launch-1")
    assert (seen.id, seen.capacity_type, seen.zone) == (made.id, "spot", "us-west-2a")
    assert seen.state in ("pending", "running")
    assert seen.subnet_id == made.subnet_id
    assert seen.private_dns_name.endswith(".internal")
    assert len(seen.security_group_ids) == 1
    assert seen.launched_at > 1_600_000_000


async def test_the_same_token_gives_the_same_instances(cloud: Cloud) -> None:
    """F1: a crash between CreateFleet and its record."""
    request = await fleet(cloud, "same-1", "m5.large", count=2)
    first = await cloud.ec2.create_fleet(request)
    assert await cloud.ec2.create_fleet(request) == first
    assert len(await launched(cloud, "same-1")) == 2


async def test_a_token_with_other_parameters_is_refused_with_its_code(cloud: Cloud) -> None:
    """F1: a crash between CreateFleet and its record."""
    await cloud.ec2.create_fleet(await fleet(cloud, "other-1", "m5.large"))
    with pytest.raises(LaunchRejected) as raised:
        await cloud.ec2.create_fleet(await fleet(cloud, "other-1", "m5.large", count=2))
    assert raised.value.context["code"] == IDEMPOTENT_PARAMETER_MISMATCH


async def test_a_lost_answer_is_unknown_and_a_replay_finds_the_instance(
    cloud: Cloud, control: Any
) -> None:
    """F1: the connection breaks after EC2 launched."""
    request = await fleet(cloud, "lost-1", "m5.large")
    await control.fault("CreateFleet", "x", status=0, mode="after")
    with pytest.raises(Unreachable):
        await cloud.ec2.create_fleet(request)
    result = await cloud.ec2.create_fleet(request)
    assert [i.id for i in await launched(cloud, "lost-1")] == [result.instances[0].id]


async def test_a_short_pool_gives_instances_and_errors_together(cloud: Cloud, control: Any) -> None:
    """LCH-60: codes for no capacity; LCH-61: unavailable offerings; F18: no capacity; F19: a fleet of another size."""
    pool = {"instanceType": "c5.large", "zone": "us-west-2a", "capacityType": "on-demand"}
    await control.post("capacity", pool | {"available": 0})
    request = await fleet(cloud, "short-1", "c5.large", "m5.xlarge")
    result = await cloud.ec2.create_fleet(request)
    await control.post("capacity", pool | {"available": None})
    assert [one.instance_type for one in result.instances] == ["m5.xlarge"]
    (error,) = result.errors
    assert (error.code, error.instance_type) == ("InsufficientInstanceCapacity", "c5.large")
    assert (error.zone, error.capacity_type) == ("us-west-2a", "on-demand")


async def test_a_missing_template_is_not_found(cloud: Cloud) -> None:
    """LCH-25: a template that is gone."""
    request = await fleet(cloud, "missing-1", "m5.large")
    specification = {"LaunchTemplateName": "no-such-template", "Version": "1"}
    request["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"] = specification
    with pytest.raises(NotFound):
        await cloud.ec2.create_fleet(request)


async def test_a_throttled_read_is_repeated(cloud: Cloud, control: Any) -> None:
    """F17: throttling by EC2."""
    await control.fault("DescribeAvailabilityZones", "RequestLimitExceeded", status=503, count=2)
    assert await cloud.ec2.zones()


async def test_a_throttled_launch_is_reported_at_once(cloud: Cloud, control: Any) -> None:
    """F17: one throttled call counts once; the record and its token stay good."""
    request = await fleet(cloud, "throttled-1", "m5.large")
    await control.fault("CreateFleet", "RequestLimitExceeded", status=503, count=1)
    with pytest.raises(Throttled):
        await cloud.ec2.create_fleet(request)
    assert len((await cloud.ec2.create_fleet(request)).instances) == 1


async def test_termination_is_idempotent_and_reports_unknown_ids(cloud: Cloud) -> None:
    """F20: lists of EC2 lag behind."""
    result = await cloud.ec2.create_fleet(await fleet(cloud, "end-1", "m5.large", count=2))
    ids = [one.id for one in result.instances]
    assert await cloud.ec2.terminate([*ids, UNKNOWN]) == (UNKNOWN,)
    states = {one.state for one in await cloud.ec2.instances(ids=ids)}
    assert states <= {"shutting-down", "terminated"}
    assert await cloud.ec2.terminate(ids) == ()
    assert await cloud.ec2.terminate([]) == ()


async def test_unknown_ids_are_absent_from_a_listing(cloud: Cloud) -> None:
    """F20: an instance that EC2 does not show yet is no error."""
    assert await cloud.ec2.instances(ids=[UNKNOWN]) == []
    assert await cloud.ec2.instances(ids=[]) == []


async def test_callers_at_the_same_time_share_one_call(cloud: Cloud, control: Any) -> None:
    """LCH-55: each asks for one instance and gets its own answer."""
    result = await cloud.ec2.create_fleet(await fleet(cloud, "share-1", "m5.large", count=8))
    ids = [one.id for one in result.instances]
    before = {action: len(await control.calls(action)) for action in SHARED_ACTIONS}
    found = await asyncio.gather(*(cloud.ec2.instances(ids=[one]) for one in ids))
    assert [[one.id for one in answer] for answer in found] == [[one] for one in ids]
    ended = await asyncio.gather(*(cloud.ec2.terminate([one]) for one in (*ids, UNKNOWN)))
    assert ended == [()] * len(ids) + [(UNKNOWN,)]
    more = [len(await control.calls(action)) - before[action] for action in SHARED_ACTIONS]
    assert more == [1, 2], "the second termination is the first without the unknown id"


SHARED_ACTIONS = ("DescribeInstances", "TerminateInstances")


async def test_tags_can_be_added_later(cloud: Cloud) -> None:
    """LCH-56: tags."""
    result = await cloud.ec2.create_fleet(await fleet(cloud, "tag-1", "m5.large"))
    await cloud.ec2.tag([result.instances[0].id], {"Name": "node-1"})
    (found,) = await cloud.ec2.instances(
        tags={"dovetail.sh/launch-token": "tag-1"}, tag_keys=("Name",)
    )
    assert found.tags["Name"] == "node-1"


@pytest.mark.parametrize(
    "call",
    [lambda ec2: ec2.instances(), lambda ec2: ec2.create_fleet({"Type": "instant"})],
    ids=["a listing of the whole account", "a launch without a token"],
)
async def test_dangerous_calls_are_refused(cloud: Cloud, call: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="needs"):
        await call(cloud.ec2)
