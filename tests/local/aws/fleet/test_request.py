"""CreateFleet over the wire: pools, prices, capacity, tokens (LCH-50 to LCH-64, F1 of the failure
catalogue).
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import ControlClient, Network, eventually, fleet, instance_ids


async def test_the_cheapest_pool_is_launched(ec2: Any, network: Network) -> None:
    answer = await ec2.create_fleet(
        **fleet(network, [("m5.2xlarge", "a"), ("m5.large", "a"), ("m5.xlarge", "b")])
    )
    assert [group["InstanceType"] for group in answer["Instances"]] == ["m5.large"]
    assert answer["Errors"] == []
    assert answer["FleetId"].startswith("fleet-")


async def test_a_pool_short_of_capacity_gives_what_it_has_and_reports_the_override(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-61: one answer may hold instances and errors."""
    control.post(
        "capacity",
        {"instanceType": "t3.large", "zone": "us-west-2a", "capacityType": "spot", "available": 1},
    )
    pools = [("t3.large", "a"), ("m5.4xlarge", "b")]
    answer = await ec2.create_fleet(**fleet(network, pools, total=3, capacity_type="spot"))
    counts = {g["InstanceType"]: len(g["InstanceIds"]) for g in answer["Instances"]}
    assert counts == {"t3.large": 1, "m5.4xlarge": 2}
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["Lifecycle"] == "spot"
    override = error["LaunchTemplateAndOverrides"]["Overrides"]
    assert override["InstanceType"] == "t3.large"
    assert override["SubnetId"] == network.subnets["us-west-2a"]


async def test_no_capacity_anywhere_gives_errors_and_no_instance(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    for zone in ("us-west-2a", "us-west-2b"):
        pool = {"instanceType": "m5.large", "zone": zone, "capacityType": "on-demand"}
        control.post("capacity", {**pool, "available": 0, "code": "VcpuLimitExceeded"})
    answer = await ec2.create_fleet(**fleet(network, [("m5.large", "a"), ("m5.large", "b")]))
    assert answer["Instances"] == []
    assert {error["ErrorCode"] for error in answer["Errors"]} == {"VcpuLimitExceeded"}


async def test_the_same_token_gives_the_same_answer(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    request = fleet(network, [("m5.large", "a")], total=2, ClientToken="token-1")
    first = await ec2.create_fleet(**request)
    second = await ec2.create_fleet(**request)
    assert first["FleetId"] == second["FleetId"]
    assert instance_ids(first) == instance_ids(second)
    assert len(control.states()) == 2


async def test_the_same_token_with_other_parameters_is_a_mismatch(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    await ec2.create_fleet(**fleet(network, [("m5.large", "a")], ClientToken="token-1"))
    with pytest.raises(ClientError) as refused:
        await ec2.create_fleet(**fleet(network, [("m5.large", "b")], ClientToken="token-1"))
    assert refused.value.response["Error"]["Code"] == "IdempotentParameterMismatch"
    assert len(control.states()) == 1


async def test_a_token_whose_instances_ended_is_refused(ec2: Any, network: Network) -> None:
    request = fleet(network, [("m5.large", "a")], ClientToken="token-1")
    await ec2.terminate_instances(InstanceIds=instance_ids(await ec2.create_fleet(**request)))
    with pytest.raises(ClientError) as refused:
        await ec2.create_fleet(**request)
    assert refused.value.response["Error"]["Code"] == "IdempotentInstanceTerminated"


async def test_an_unknown_subnet_is_an_error_of_its_override_only(
    ec2: Any, network: Network
) -> None:
    request = fleet(network, [("m5.large", "a"), ("m5.xlarge", "b")])
    request["LaunchTemplateConfigs"][0]["Overrides"][0]["SubnetId"] = "subnet-0123456789abcdef0"
    answer = await ec2.create_fleet(**request)
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["InvalidSubnetID.NotFound"]
    assert [group["InstanceType"] for group in answer["Instances"]] == ["m5.xlarge"]


async def test_an_unknown_launch_template_refuses_the_call(ec2: Any, network: Network) -> None:
    """LCH-25: a template that was deleted."""
    request = fleet(network, [("m5.large", "a")])
    request["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"] = {
        "LaunchTemplateName": "gone",
        "Version": "$Latest",
    }
    with pytest.raises(ClientError) as refused:
        await ec2.create_fleet(**request)
    code = refused.value.response["Error"]["Code"]
    assert code == "InvalidLaunchTemplateName.NotFoundException"


async def test_an_unknown_type_and_a_type_not_offered_are_errors(
    ec2: Any, network: Network
) -> None:
    pools = [("zz9.huge", "a"), ("m5.large", "a")]
    answer = await ec2.create_fleet(**fleet(network, pools))
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["InvalidParameterValue"]
    assert len(instance_ids(answer)) == 1


async def test_an_image_of_another_architecture_is_an_error(ec2: Any, network: Network) -> None:
    answer = await ec2.create_fleet(**fleet(network, [("m6g.large", "a")]))
    assert answer["Instances"] == []
    assert "architecture" in answer["Errors"][0]["ErrorMessage"]


async def test_a_dry_run_launches_nothing(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    with pytest.raises(ClientError) as refused:
        await ec2.create_fleet(**fleet(network, [("m5.large", "a")], DryRun=True))
    assert refused.value.response["Error"]["Code"] == "DryRunOperation"
    assert control.states() == {}


async def test_the_lowest_priority_number_wins_over_the_price(ec2: Any, network: Network) -> None:
    request = fleet(
        network,
        [("m5.large", "a"), ("m5.2xlarge", "a")],
        OnDemandOptions={"AllocationStrategy": "prioritized"},
    )
    overrides = request["LaunchTemplateConfigs"][0]["Overrides"]
    overrides[0]["Priority"], overrides[1]["Priority"] = 2.0, 1.0
    answer = await ec2.create_fleet(**request)
    assert answer["Instances"][0]["InstanceType"] == "m5.2xlarge"


async def test_a_spot_limit_below_the_price_is_too_low(ec2: Any, network: Network) -> None:
    request = fleet(network, [("m5.large", "a")], capacity_type="spot")
    request["LaunchTemplateConfigs"][0]["Overrides"][0]["MaxPrice"] = "0.0001"
    answer = await ec2.create_fleet(**request)
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["SpotMaxPriceTooLow"]


async def test_a_minimum_that_one_zone_cannot_reach_launches_nothing(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    for zone in ("us-west-2a", "us-west-2b"):
        pool = {"instanceType": "m5.large", "zone": zone, "capacityType": "on-demand"}
        control.post("capacity", {**pool, "available": 2})
    options = {"MinTargetCapacity": 3, "SingleAvailabilityZone": True}
    pools = [("m5.large", "a"), ("m5.large", "b")]
    answer = await ec2.create_fleet(**fleet(network, pools, total=3, OnDemandOptions=options))
    assert answer["Instances"] == []
    assert control.states() == {}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"Type": "maintain"}, "instant"),
        ({"OnDemandOptions": {"MaxTotalPrice": "1"}}, "MaxTotalPrice"),
    ],
)
async def test_what_the_emulator_lacks_is_refused_by_name(
    ec2: Any, network: Network, change: dict[str, Any], word: str
) -> None:
    with pytest.raises(ClientError) as refused:
        await ec2.create_fleet(**{**fleet(network, [("m5.large", "a")]), **change})
    assert refused.value.response["Error"]["Code"] == "UnsupportedOperation"
    assert word in refused.value.response["Error"]["Message"]


async def test_the_instance_has_every_field_of_the_launch_template(
    ec2: Any, network: Network
) -> None:
    tags = [
        {"ResourceType": "instance", "Tags": [{"Key": "dovetail.sh/machine", "Value": "m1"}]},
        {"ResourceType": "volume", "Tags": [{"Key": "owner", "Value": "dovetail"}]},
        {"ResourceType": "fleet", "Tags": [{"Key": "fleet-tag", "Value": "f"}]},
    ]
    request = fleet(network, [("m5.large", "b")], capacity_type="spot", TagSpecifications=tags)
    answer = await ec2.create_fleet(**request)
    described = await ec2.describe_instances(InstanceIds=instance_ids(answer))
    (instance,) = described["Reservations"][0]["Instances"]
    found = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert found["dovetail.sh/machine"] == "m1"
    assert found["aws:ec2:fleet-id"] == answer["FleetId"]
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["IamInstanceProfile"]["Arn"].endswith("NodeInstanceProfile-dovetail-local")
    assert [group["GroupId"] for group in instance["SecurityGroups"]] == [network.group_id]
    assert instance["Placement"]["AvailabilityZone"] == "us-west-2b"
    (device,) = instance["BlockDeviceMappings"]
    volumes = await ec2.describe_volumes(VolumeIds=[device["Ebs"]["VolumeId"]])
    (volume,) = volumes["Volumes"]
    assert (volume["Size"], volume["VolumeType"], volume["Encrypted"]) == (20, "gp3", True)
    assert {"Key": "owner", "Value": "dovetail"} in volume["Tags"]
    assert volume["Attachments"][0]["InstanceId"] == instance["InstanceId"]


async def test_an_ended_instance_gives_its_address_and_volume_back(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    async def addresses() -> int:
        subnet = await ec2.describe_subnets(SubnetIds=[network.subnets["us-west-2a"]])
        return int(subnet["Subnets"][0]["AvailableIpAddressCount"])

    before = await addresses()
    ids = instance_ids(await ec2.create_fleet(**fleet(network, [("m5.large", "a")], total=3)))
    assert await addresses() == before - 3
    await ec2.terminate_instances(InstanceIds=ids)
    await eventually(lambda: set(control.states().values()) == {"terminated"})
    assert await addresses() == before
    assert (await ec2.describe_volumes())["Volumes"] == []
