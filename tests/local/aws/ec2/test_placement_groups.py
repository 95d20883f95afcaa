"""Placement groups by their names and what they take, and the subnets of launches that name none or an unknown one."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import ControlClient, Network
from tests.support.waiting import wait_until


async def names(ec2: Any, **request: Any) -> list[str]:
    found = await ec2.describe_placement_groups(**request)
    return [group["GroupName"] for group in found["PlacementGroups"]]


async def test_a_group_is_available_until_it_is_deleted(ec2: Any) -> None:
    made = await ec2.create_placement_group(GroupName="racks", Strategy="spread")
    await ec2.create_placement_group(GroupName="close", Strategy="cluster")
    assert made["PlacementGroup"]["State"] == "available"
    assert await names(ec2) == ["close", "racks"]
    assert await names(ec2, GroupIds=[made["PlacementGroup"]["GroupId"]]) == ["racks"]
    assert await names(ec2, Filters=[{"Name": "group-name", "Values": ["cl*"]}]) == ["close"]
    await ec2.delete_placement_group(GroupName="racks")
    assert await names(ec2) == ["close"]


async def test_a_name_that_is_taken_or_unknown_is_refused(ec2: Any) -> None:
    await ec2.create_placement_group(GroupName="racks", Strategy="spread")
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Duplicate"):
        await ec2.create_placement_group(GroupName="racks", Strategy="spread")
    for call in (ec2.delete_placement_group(GroupName="none"), names(ec2, GroupNames=["none"])):
        with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
            await call


async def launch(ec2: Any, network: Network, number: int, **placement: str) -> dict[str, Any]:
    """As many m5.large of these in zone a as there is room for."""
    return dict(
        await ec2.run_instances(
            ImageId=network.image_id,
            InstanceType="m5.large",
            MinCount=1,
            MaxCount=number,
            SubnetId=network.subnets["us-west-2a"],
            Placement=placement,
        )
    )


async def test_a_spread_group_takes_seven_instances_in_a_zone_and_no_more_until_one_is_gone(
    ec2: Any, network: Network
) -> None:
    made = await ec2.create_placement_group(GroupName="racks", Strategy="spread")
    first = await launch(ec2, network, 9, GroupName="racks")
    assert len(first["Instances"]) == 7
    identity = made["PlacementGroup"]["GroupId"]
    assert {one["Placement"]["GroupId"] for one in first["Instances"]} == {identity}
    for named in ({"GroupName": "racks"}, {"GroupId": identity}):
        with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
            await launch(ec2, network, 1, **named)
    assert len((await launch(ec2, network, 1))["Instances"]) == 1, "the limit is the group's"
    await ec2.terminate_instances(InstanceIds=[first["Instances"][0]["InstanceId"]])

    async def launched() -> bool:
        try:
            await launch(ec2, network, 1, GroupName="racks")
        except ClientError:
            return False
        return True

    await wait_until(launched, "the terminated instance has left its rack")


async def test_other_groups_have_no_such_limit_and_one_that_is_not_there_is_refused(
    ec2: Any, network: Network
) -> None:
    await ec2.create_placement_group(GroupName="close", Strategy="cluster")
    assert len((await launch(ec2, network, 9, GroupName="close"))["Instances"]) == 9
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
        await launch(ec2, network, 1, GroupName="none")


async def test_what_one_group_lacks_another_launch_gets(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    await ec2.create_placement_group(GroupName="close", Strategy="cluster")
    pool = {"instanceType": "m5.large", "zone": "us-west-2a", "capacityType": "*"}
    control.post("capacity", {**pool, "available": 2, "placementGroup": "clo*"})
    assert len((await launch(ec2, network, 9, GroupName="close"))["Instances"]) == 2
    assert len((await launch(ec2, network, 9))["Instances"]) == 9
    (stated,) = control.get("capacity")["statements"]
    assert stated["used"] == {"m5.large/us-west-2a/on-demand": 2}


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"Placement": {"AvailabilityZone": "us-west-2z"}}, "MissingInput"),
    ],
)
async def test_a_launch_without_a_subnet_is_refused(
    ec2: Any, network: Network, place: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError, match=code):
        await ec2.run_instances(
            ImageId=network.image_id, InstanceType="m5.large", MinCount=1, MaxCount=1, **place
        )


async def test_a_launch_that_names_no_subnet_gets_the_default_one_of_its_zone(
    ec2: Any, network: Network
) -> None:
    request = {"ImageId": network.image_id, "InstanceType": "m5.large", "MinCount": 1}
    zone = {"AvailabilityZone": "us-west-2b"}
    made = await ec2.run_instances(**request, MaxCount=1, Placement=zone)
    subnets = await ec2.describe_subnets(SubnetIds=[made["Instances"][0]["SubnetId"]])
    (subnet,) = subnets["Subnets"]
    assert (subnet["DefaultForAz"], subnet["AvailabilityZone"]) == (True, "us-west-2b")
