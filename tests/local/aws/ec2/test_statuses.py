"""Impaired instances and scheduled events in DescribeInstanceStatus (INT-30)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.local.aws.conftest import ControlClient, Network, eventually, fleet, instance_ids

INSTANCE = {"Name": "instance-status.status", "Values": ["impaired"]}
SYSTEM = {"Name": "system-status.status", "Values": ["impaired"]}
EVENT = {"Name": "event.code", "Values": ["instance-reboot", "instance-retirement"]}


@pytest.fixture
async def running(ec2: Any, network: Network, control: ControlClient) -> list[str]:
    ids = instance_ids(await ec2.create_fleet(**fleet(network, [("m5.large", "a")], total=3)))
    await eventually(lambda: set(control.states().values()) == {"running"})
    return ids


async def found(ec2: Any, *filters: Any) -> list[dict[str, Any]]:
    answer = await ec2.describe_instance_status(Filters=list(filters))
    return list(answer["InstanceStatuses"])


async def test_each_filter_set_finds_its_instances(
    ec2: Any, control: ControlClient, running: list[str]
) -> None:
    first, second, third = running
    control.post(
        "statuses", {"instanceId": first, "instance": "impaired", "impairedForSeconds": 180}
    )
    control.post("statuses", {"instanceId": second, "system": "impaired"})
    event = {"instanceId": third, "event": "instance-retirement", "eventInSeconds": 600}
    control.post("statuses", event)
    (impaired,) = await found(ec2, INSTANCE)
    (broken,) = await found(ec2, SYSTEM)
    (scheduled,) = await found(ec2, EVENT)
    assert [row["InstanceId"] for row in (impaired, broken, scheduled)] == running
    (detail,) = impaired["InstanceStatus"]["Details"]
    assert (detail["Name"], detail["Status"]) == ("reachability", "failed")
    age = datetime.now(UTC) - detail["ImpairedSince"]
    assert timedelta(seconds=175) < age < timedelta(minutes=10)
    assert impaired["SystemStatus"]["Status"] == "ok"
    (event,) = scheduled["Events"]
    assert event["Code"] == "instance-retirement"
    assert event["NotBefore"] > datetime.now(UTC)


async def test_an_impaired_disk_is_no_impaired_instance(
    ec2: Any, control: ControlClient, running: list[str]
) -> None:
    control.post("statuses", {"instanceId": running[0], "ebs": "impaired"})
    assert await found(ec2, INSTANCE) == await found(ec2, SYSTEM) == []
    disks = {"Name": "attached-ebs-status.status", "Values": ["impaired"]}
    assert [row["InstanceId"] for row in await found(ec2, disks)] == running[:1]


async def test_an_instance_becomes_healthy_again(
    ec2: Any, control: ControlClient, running: list[str]
) -> None:
    control.post("statuses", {"where": {}, "instance": "impaired", "event": "system-reboot"})
    assert len(await found(ec2, INSTANCE)) == 3
    control.post("statuses", {"instanceId": running[0]})
    assert [row["InstanceId"] for row in await found(ec2, INSTANCE)] == running[1:]
    control.post("clear")
    assert await found(ec2, INSTANCE) == []


async def test_an_ending_instance_has_no_status(
    ec2: Any, control: ControlClient, running: list[str]
) -> None:
    control.post("statuses", {"instanceId": running[0], "instance": "impaired"})
    await ec2.terminate_instances(InstanceIds=running[:1])
    assert await found(ec2, INSTANCE) == []
