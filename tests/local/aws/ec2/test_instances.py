"""Instances over the wire: lifecycle timing, describe filters and paging, RunInstances, tags."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import ControlClient, Network, eventually, fleet, instance_ids


async def launch(ec2: Any, network: Network, number: int = 1, **more: Any) -> list[str]:
    return instance_ids(
        await ec2.create_fleet(**fleet(network, [("m5.large", "a")], total=number, **more))
    )


async def test_an_instance_is_pending_then_running_then_ends(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    control.post("settings", {"instancePendingSeconds": 600, "instanceShuttingDownSeconds": 900})
    (instance_id,) = await launch(ec2, network)
    control.post("clock", {"stepSeconds": 300})
    assert control.states()[instance_id] == "pending"
    control.post("clock", {"stepSeconds": 300})
    await eventually(lambda: control.states()[instance_id] == "running")
    answer = await ec2.terminate_instances(InstanceIds=[instance_id])
    assert answer["TerminatingInstances"][0]["PreviousState"]["Name"] == "running"
    assert answer["TerminatingInstances"][0]["CurrentState"]["Name"] == "shutting-down"
    control.post("clock", {"stepSeconds": 600})
    assert control.states()[instance_id] == "shutting-down"
    control.post("clock", {"stepSeconds": 300})
    await eventually(lambda: control.states()[instance_id] == "terminated")


async def test_terminating_twice_changes_nothing(ec2: Any, network: Network) -> None:
    ids = await launch(ec2, network)
    await ec2.terminate_instances(InstanceIds=ids)
    again = await ec2.terminate_instances(InstanceIds=ids)
    assert again["TerminatingInstances"][0]["PreviousState"]["Name"] in {
        "shutting-down",
        "terminated",
    }


async def test_an_unknown_id_terminates_nothing(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    (instance_id,) = await launch(ec2, network)
    with pytest.raises(ClientError) as refused:
        await ec2.terminate_instances(InstanceIds=[instance_id, "i-0123456789abcdef0"])
    assert refused.value.response["Error"]["Code"] == "InvalidInstanceID.NotFound"
    assert control.states()[instance_id] in {"pending", "running"}


@pytest.mark.slow
async def test_a_stopped_instance_starts_again(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    (instance_id,) = await launch(ec2, network)
    await eventually(lambda: control.states()[instance_id] == "running")
    await ec2.stop_instances(InstanceIds=[instance_id])
    await eventually(lambda: control.states()[instance_id] == "stopped")
    await ec2.start_instances(InstanceIds=[instance_id])
    await eventually(lambda: control.states()[instance_id] == "running")


async def test_pages_hold_every_instance_once(ec2: Any, network: Network) -> None:
    ids = await launch(ec2, network, 12)
    pages = [
        [i["InstanceId"] for r in page["Reservations"] for i in r["Instances"]]
        async for page in ec2.get_paginator("describe_instances").paginate(
            PaginationConfig={"PageSize": 5}
        )
    ]
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [instance_id for page in pages for instance_id in page] == ids


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("tag:team", ["red"], 1),
        ("tag:team", ["r*", "b?ue"], 2),
        ("tag-key", ["team"], 2),
        ("instance-state-name", ["pending", "running"], 2),
        ("instance-state-name", ["stopped"], 0),
        ("availability-zone", ["us-west-2a"], 2),
    ],
)
async def test_filters_select(
    ec2: Any, network: Network, name: str, values: list[str], expected: int
) -> None:
    for colour in ("red", "blue"):
        tags = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": colour}]}]
        await launch(ec2, network, TagSpecifications=tags)
    found = await ec2.describe_instances(Filters=[{"Name": name, "Values": values}])
    assert len(found["Reservations"]) == expected


async def test_an_unknown_filter_is_refused(ec2: Any, network: Network) -> None:
    with pytest.raises(ClientError) as refused:
        await ec2.describe_instances(Filters=[{"Name": "colour", "Values": ["red"]}])
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


async def test_new_instances_hide_during_the_describe_lag(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    control.post("settings", {"describeLagSeconds": 600})
    ids = await launch(ec2, network)
    with pytest.raises(ClientError) as refused:
        await ec2.describe_instances(InstanceIds=ids)
    assert refused.value.response["Error"]["Code"] == "InvalidInstanceID.NotFound"
    assert (await ec2.describe_instances())["Reservations"] == []
    control.post("clock", {"stepSeconds": 600})
    assert len((await ec2.describe_instances())["Reservations"]) == 1


async def test_an_ended_instance_is_forgotten_in_the_end(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    control.post("settings", {"terminatedVisibleSeconds": 0.1, "instanceShuttingDownSeconds": 0})
    ids = await launch(ec2, network)
    await ec2.terminate_instances(InstanceIds=ids)
    await eventually(lambda: control.states() == {})


async def test_tags_change_on_known_instances_only(ec2: Any, network: Network) -> None:
    (instance_id,) = await launch(ec2, network)
    await ec2.create_tags(Resources=[instance_id], Tags=[{"Key": "Name", "Value": "node"}])
    described = await ec2.describe_instances(InstanceIds=[instance_id])
    tags = described["Reservations"][0]["Instances"][0]["Tags"]
    assert {"Key": "Name", "Value": "node"} in tags
    with pytest.raises(ClientError) as refused:
        await ec2.create_tags(Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])
    assert refused.value.response["Error"]["Code"] == "InvalidInstanceID.NotFound"


async def test_run_instances_is_idempotent_by_token(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    request = {
        "LaunchTemplate": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
        "InstanceType": "m5.large",
        "SubnetId": network.subnets["us-west-2c"],
        "MinCount": 2,
        "MaxCount": 2,
        "ClientToken": "run-1",
    }
    first = await ec2.run_instances(**request)
    second = await ec2.run_instances(**request)
    ids = [instance["InstanceId"] for instance in first["Instances"]]
    assert [instance["InstanceId"] for instance in second["Instances"]] == ids
    assert sorted(control.states()) == sorted(ids)


async def test_run_instances_answers_a_pool_without_capacity_with_its_code(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    pool = {"instanceType": "m5.large", "zone": "us-west-2a", "capacityType": "on-demand"}
    control.post("capacity", {**pool, "available": 0})
    with pytest.raises(ClientError) as refused:
        await ec2.run_instances(
            LaunchTemplate={"LaunchTemplateName": "nodes"},
            InstanceType="m5.large",
            SubnetId=network.subnets["us-west-2a"],
            MinCount=1,
            MaxCount=1,
        )
    assert refused.value.response["Error"]["Code"] == "InsufficientInstanceCapacity"


async def test_only_running_instances_have_a_status(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    control.post("settings", {"instancePendingSeconds": 600})
    ids = await launch(ec2, network)
    pending = await ec2.describe_instance_status(InstanceIds=ids)
    assert pending["InstanceStatuses"] == []
    control.post("clock", {"stepSeconds": 600})
    await eventually(lambda: control.states()[ids[0]] == "running")
    running = await ec2.describe_instance_status(InstanceIds=ids)
    assert running["InstanceStatuses"][0]["InstanceStatus"]["Status"] == "ok"


@pytest.mark.slow
async def test_a_hundred_connections_launch_at_the_same_time(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    requests = [ec2.create_fleet(**fleet(network, [("m5.large", "a")])) for _ in range(100)]
    answers = await asyncio.gather(*requests)
    assert len({instance_ids(answer)[0] for answer in answers}) == 100
    addresses = [row["privateIp"] for row in control.get("instances")["instances"]]
    assert len(set(addresses)) == 100


async def test_monitoring_tenancy_and_volumes_are_those_of_the_template(
    ec2: Any, network: Network
) -> None:
    """T-06: detailed monitoring; T-09: io1 and io2 volumes need iops, gp3 may have iops and throughput."""
    sizes = {"VolumeSize": 10, "Iops": 4000}
    volumes = [
        {"DeviceName": "/dev/xvda", "Ebs": {**sizes, "VolumeType": "gp3", "Throughput": 200}},
        {"DeviceName": "/dev/xvdb", "Ebs": {**sizes, "VolumeType": "io2"}},
    ]
    asked = {"Monitoring": {"Enabled": True}, "Placement": {"Tenancy": "dedicated"}}
    answer = await ec2.run_instances(
        ImageId=network.image_id, InstanceType="m5.large", MinCount=1, MaxCount=1,
        BlockDeviceMappings=volumes, **asked,
    )  # fmt: skip
    (instance,) = answer["Instances"]
    assert instance["Monitoring"]["State"] == "enabled"
    assert instance["Placement"]["Tenancy"] == "dedicated"
    ids = [one["Ebs"]["VolumeId"] for one in instance["BlockDeviceMappings"]]
    described = await ec2.describe_volumes(VolumeIds=ids)
    found = {
        one["VolumeType"]: (one["Iops"], one.get("Throughput")) for one in described["Volumes"]
    }
    assert found == {"gp3": (4000, 200), "io2": (4000, None)}
