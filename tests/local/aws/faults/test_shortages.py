"""What EC2 lacks, over the wire: cut fleets, quotas, addresses, reservations, templates (LCH-60,
LCH-61, LCH-63, F18).
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import ControlClient, Network, fleet, instance_ids

POOLS = [("m5.large", "a"), ("m5.xlarge", "b")]


def codes(answer: Any) -> list[str]:
    return [error["ErrorCode"] for error in answer["Errors"]]


async def test_a_cut_fleet_holds_instances_and_errors(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-54, LCH-61: a partial fleet."""
    control.post("fleets", {"give": 1, "code": "MaxFleetCountExceeded"})
    answer = await ec2.create_fleet(**fleet(network, POOLS, total=3))
    assert len(instance_ids(answer)) == 1
    assert codes(answer) == ["MaxFleetCountExceeded"]
    whole = await ec2.create_fleet(**fleet(network, POOLS, total=3))
    assert (len(instance_ids(whole)), codes(whole)) == (3, [])


async def test_a_repeated_token_gives_the_partial_answer_again(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    control.post("fleets", {"give": 1})
    request = fleet(network, POOLS, total=2, ClientToken="token-1")
    first = await ec2.create_fleet(**request)
    second = await ec2.create_fleet(**request)
    assert instance_ids(first) == instance_ids(second)
    assert codes(first) == codes(second) == ["InsufficientInstanceCapacity"]
    assert len(control.states()) == 1


async def test_wildcards_empty_a_zone_and_a_later_word_gives_a_pool_back(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    everything = {"instanceType": "*", "zone": "us-west-2?", "capacityType": "*"}
    control.post("capacity", {**everything, "available": 0})
    one = {"instanceType": "m5.xlarge", "zone": "us-west-2b", "capacityType": "on-demand"}
    control.post("capacity", {**one, "available": 1})
    answer = await ec2.create_fleet(**fleet(network, POOLS, total=2))
    assert [group["InstanceType"] for group in answer["Instances"]] == ["m5.xlarge"]
    assert codes(answer) == ["InsufficientInstanceCapacity"] * 2
    stated = control.get("capacity")["statements"]
    assert stated[1]["used"] == {"m5.xlarge/us-west-2b/on-demand": 1}


async def test_a_missing_service_linked_role_refuses_spot_only(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-63: the missing role for spot."""
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    spot = {"instanceType": "*", "zone": "*", "capacityType": "spot", "available": 0}
    control.post("capacity", {**spot, "code": code})
    refused = await ec2.create_fleet(**fleet(network, POOLS[:1], capacity_type="spot"))
    assert (instance_ids(refused), codes(refused)) == ([], [code])
    assert instance_ids(await ec2.create_fleet(**fleet(network, POOLS[:1])))


@pytest.mark.parametrize(
    ("market", "quota", "code"),
    [
        ("on-demand", "onDemandVcpus", "VcpuLimitExceeded"),
        ("spot", "spotVcpus", "MaxSpotInstanceCountExceeded"),
    ],
)
async def test_a_quota_counts_the_vcpus_of_live_instances(
    ec2: Any, network: Network, control: ControlClient, market: str, quota: str, code: str
) -> None:
    control.post("quotas", {quota: 4})
    request = fleet(network, POOLS[:1], total=3, capacity_type=market)
    answer = await ec2.create_fleet(**request)
    assert (len(instance_ids(answer)), codes(answer)) == (2, [code])
    await ec2.terminate_instances(InstanceIds=instance_ids(answer)[:1])
    assert len(instance_ids(await ec2.create_fleet(**request))) == 1


async def test_a_subnet_without_addresses_is_an_error_of_its_override(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-12: the numbers of DescribeSubnets go down and up with instances."""
    subnet_id = network.subnets["us-west-2a"]
    control.post("subnets", {"subnetId": subnet_id, "freeAddresses": 2})

    async def free() -> int:
        answer = await ec2.describe_subnets(SubnetIds=[subnet_id])
        return int(answer["Subnets"][0]["AvailableIpAddressCount"])

    answer = await ec2.create_fleet(**fleet(network, POOLS, total=3))
    counts = {group["InstanceType"]: len(group["InstanceIds"]) for group in answer["Instances"]}
    assert counts == {"m5.large": 2, "m5.xlarge": 1}
    assert codes(answer) == ["InsufficientFreeAddressesInSubnet"]
    assert await free() == 0
    control.post("clear")
    assert await free() == 8192 - 5 - 2


async def test_an_exhausted_reservation_is_reported(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """EC-05, ReservationCapacityExceeded of LCH-60; stated capacity is no part of it."""
    body = {"instanceType": "m5.large", "zone": "us-west-2a", "count": 2, "tags": {"team": "red"}}
    reservation = control.post("reservations", body)["reservationId"]
    pool = {"instanceType": "m5.large", "zone": "us-west-2a", "capacityType": "on-demand"}
    control.post("capacity", {**pool, "available": 0})
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    source = await ec2.describe_launch_template_versions(LaunchTemplateName="nodes", Versions=["1"])
    await ec2.create_launch_template(
        LaunchTemplateName="reserved",
        LaunchTemplateData={
            **source["LaunchTemplateVersions"][0]["LaunchTemplateData"],
            "CapacityReservationSpecification": target,
        },
    )
    request = fleet(network, POOLS[:1], total=3)
    specification = {"LaunchTemplateName": "reserved", "Version": "$Latest"}
    request["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"] = specification
    answer = await ec2.create_fleet(**request)
    assert codes(answer) == ["ReservationCapacityExceeded"]
    ids = instance_ids(answer)
    described = await ec2.describe_instances(InstanceIds=ids[:1])
    instance = described["Reservations"][0]["Instances"][0]
    assert (len(ids), instance["CapacityReservationId"]) == (2, reservation)

    async def row() -> Any:
        filters = [{"Name": "tag:team", "Values": ["red"]}]
        found = await ec2.describe_capacity_reservations(Filters=filters)
        return found["CapacityReservations"][0]

    assert ((await row())["AvailableInstanceCount"], (await row())["State"]) == (0, "active")
    await ec2.terminate_instances(InstanceIds=ids[:1])
    assert (await row())["AvailableInstanceCount"] == 1


async def test_an_open_reservation_is_used_unasked(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    body = {"instanceType": "m5.large", "zone": "us-west-2a", "count": 1, "criteria": "open"}
    reservation = control.post("reservations", body)["reservationId"]
    await ec2.create_fleet(**fleet(network, POOLS[:1], total=2))
    described = await ec2.describe_instances()
    users = [
        instance.get("CapacityReservationId")
        for row in described["Reservations"]
        for instance in row["Instances"]
    ]
    assert users == [reservation, None]


async def test_an_instance_of_an_ended_reservation_runs_on_without_it(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-84: by this a machine's label becomes on-demand."""
    body = {"instanceType": "m5.large", "zone": "us-west-2a", "count": 1, "criteria": "open"}
    control.post("reservations", body | {"endsInSeconds": 600})
    await ec2.create_fleet(**fleet(network, POOLS[:1], total=1))

    async def instance() -> Any:
        return (await ec2.describe_instances())["Reservations"][0]["Instances"][0]

    assert "CapacityReservationId" in await instance()
    control.post("clock", {"stepSeconds": 601})
    found = await instance()
    assert "CapacityReservationId" not in found
    assert found["State"]["Name"] in ("pending", "running")


async def test_an_unknown_reservation_is_not_found(ec2: Any, control: ControlClient) -> None:
    """LCH-66: codes for not found."""
    with pytest.raises(ClientError) as refused:
        await ec2.describe_capacity_reservations(CapacityReservationIds=["cr-0123456789abcdef0"])
    code = refused.value.response["Error"]["Code"]
    assert code == "InvalidCapacityReservationId.NotFound"


async def test_a_template_deleted_behind_our_back_refuses_the_fleet(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-25: a template that was deleted."""
    assert control.post("launch-templates", {"delete": "no*"})["deleted"] == ["nodes"]
    with pytest.raises(ClientError) as refused:
        await ec2.create_fleet(**fleet(network, POOLS))
    code = refused.value.response["Error"]["Code"]
    assert code == "InvalidLaunchTemplateName.NotFoundException"


async def test_cloudtrail_shows_one_launch_per_instance_of_a_fleet(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-57: what CloudTrail shows of a launch; ACC-21: CreateFleet as CloudTrail shows it."""
    answer = await ec2.create_fleet(**fleet(network, POOLS[:1], total=2))
    events = control.get("trail")["events"]
    for event, instance_id in zip(events, instance_ids(answer), strict=True):
        assert event["eventName"] == "RunInstances"
        assert event["userIdentity"]["invokedBy"] == "ec2fleet.amazonaws.com"
        counts = event["requestParameters"]["instancesSet"]["items"]
        assert counts == [{"minCount": 1, "maxCount": 1}]
        made = event["responseElements"]["instancesSet"]["items"]
        assert made == [{"instanceId": instance_id}]
