"""Faults of calls and stale lists over the wire: lost and late answers, throttling, permissions, dry
runs, describe lag (F1, F17, EC-18).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiobotocore.config import AioConfig
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.local.aws.conftest import ControlClient, Network, eventually, fleet, instance_ids
from tests.support.aws.emulator import aws_session

POOLS = [("m5.large", "a")]


async def refusal(call: Any) -> str:
    """The error code of a call that must fail."""
    with pytest.raises(ClientError) as refused:
        await call
    return str(refused.value.response["Error"]["Code"])


async def test_a_client_that_times_out_finds_its_instance_by_the_token(
    aws_emulator_url: str, ec2: Any, network: Network, control: ControlClient
) -> None:
    """F1: EC2 launched, and silence."""
    fault = {"action": "CreateFleet", "status": 0, "mode": "after", "delaySeconds": 60}
    control.post("faults", fault)
    request = fleet(network, POOLS, ClientToken="token-1")
    hasty = AioConfig(retries={"total_max_attempts": 1}, read_timeout=0.5)
    async with aws_session().create_client(
        "ec2",
        region_name="us-west-2",
        endpoint_url=aws_emulator_url,
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=hasty,
    ) as client:
        with pytest.raises(ReadTimeoutError):
            await client.create_fleet(**request)
    assert instance_ids(await ec2.create_fleet(**request)) == list(control.states())


async def test_a_slow_call_is_answered_when_faults_are_cleared(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    control.post("faults", {"action": "CreateFleet", "mode": "slow", "delaySeconds": 300})
    call = asyncio.create_task(ec2.create_fleet(**fleet(network, POOLS)))
    await eventually(lambda: asyncio.to_thread(control.states))
    assert not call.done()
    await asyncio.to_thread(control.post, "clear")
    assert instance_ids(await call) == list(control.states())


async def test_a_throttled_window_refuses_every_call_until_it_is_cleared(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """F17: throttling by EC2."""
    throttle = {"code": "RequestLimitExceeded", "status": 503, "seconds": 600}
    control.post("faults", {"action": "Describe*", **throttle})
    for _ in range(3):
        assert await refusal(ec2.describe_instances()) == "RequestLimitExceeded"
    assert instance_ids(await ec2.create_fleet(**fleet(network, POOLS)))
    (row,) = control.get("faults")["faults"]
    assert (row["action"], row["met"]) == ("Describe*", 3)
    control.post("clear")
    assert len((await ec2.describe_instances())["Reservations"]) == 1


async def test_a_missing_permission_refuses_the_dry_run_too(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """EC-18: dry runs."""
    denied = {"code": "UnauthorizedOperation", "status": 403, "count": 2}
    control.post("faults", {"action": "CreateFleet", **denied})
    request = fleet(network, POOLS)
    assert await refusal(ec2.create_fleet(**request, DryRun=True)) == "UnauthorizedOperation"
    assert await refusal(ec2.create_fleet(**request)) == "UnauthorizedOperation"


async def test_dry_runs_succeed_by_an_error_and_do_nothing(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """EC-18: dry runs."""
    template = {"LaunchTemplateName": "other", "LaunchTemplateData": {"ImageId": "ami-1"}}
    launch = {"LaunchTemplate": {"LaunchTemplateName": "nodes"}, "MinCount": 1, "MaxCount": 1}
    for call in (
        ec2.create_fleet(**fleet(network, POOLS), DryRun=True),
        ec2.run_instances(**launch, DryRun=True),
        ec2.create_launch_template(**template, DryRun=True),
    ):
        assert await refusal(call) == "DryRunOperation"
    assert control.states() == {}
    names = [
        row["LaunchTemplateName"]
        for row in (await ec2.describe_launch_templates())["LaunchTemplates"]
    ]
    assert names == ["nodes"]


async def test_states_and_tags_show_late_and_the_instance_list_of_the_stack_is_never_late(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """EC2 is eventually consistent."""
    ids = instance_ids(await ec2.create_fleet(**fleet(network, POOLS)))
    await eventually(lambda: control.states()[ids[0]] == "running")
    control.post("settings", {"describeLagSeconds": 600})

    async def look() -> list[tuple[str, bool]]:
        answer = await ec2.describe_instances()
        return [
            (one["State"]["Name"], any(tag["Key"] == "late" for tag in one.get("Tags", [])))
            for row in answer["Reservations"]
            for one in row["Instances"]
        ]

    assert await look() == []
    control.post("clock", {"stepSeconds": 600})
    assert len(await look()) == 1
    await ec2.create_tags(Resources=ids, Tags=[{"Key": "late", "Value": "yes"}])
    await ec2.terminate_instances(InstanceIds=ids)
    assert [tagged for _, tagged in await look()] == [False]
    assert (await look())[0][0] in {"pending", "running"}
    await eventually(lambda: control.states()[ids[0]] == "terminated")
    control.post("settings", {"describeLagSeconds": 0})
    assert await look() == [("terminated", True)]


async def test_a_seeded_lag_is_each_instances_own(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """With most of a lag over, some instances show and some do not."""
    control.post("settings", {"describeLagSeconds": 600, "describeLagSeed": 1})
    await ec2.create_fleet(**fleet(network, POOLS, total=20))
    assert (await ec2.describe_instances())["Reservations"] == []
    control.post("settings", {"describeLagSeconds": 0.001})
    assert len((await ec2.describe_instances())["Reservations"]) == 20
