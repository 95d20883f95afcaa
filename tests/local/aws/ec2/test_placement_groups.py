"""Placement groups by their names, and the subnets of launches that name none or an unknown one."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import Network


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
