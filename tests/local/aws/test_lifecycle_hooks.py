"""Termination lifecycle hooks over EC2 Auto Scaling's own protocol (INT-41)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import ControlClient, Network, eventually, fleet, instance_ids
from tests.local.aws.interruptions.test_events import Queue
from tests.local.aws.interruptions.test_imds import Metadata

GROUP, HOOK = "workers", "drain"
NAMES = {"AutoScalingGroupName": GROUP, "LifecycleHookName": HOOK}
TRANSITION = "autoscaling:EC2_INSTANCE_TERMINATING"
EVENT = "EC2 Instance-terminate Lifecycle Action"


@pytest.fixture
async def queue(aws: Callable[..., Any], control: ControlClient) -> Queue:
    sqs = await aws("sqs")
    return Queue(sqs, (await sqs.get_queue_url(QueueName="dovetail-local"))["QueueUrl"])


@pytest.fixture
async def scaling(aws: Callable[..., Any], network: Network) -> Any:
    """A client, and a group without instances of its own."""
    client = await aws("autoscaling")
    await client.create_auto_scaling_group(
        AutoScalingGroupName=GROUP,
        LaunchTemplate={"LaunchTemplateName": "nodes", "Version": "$Latest"},
        MinSize=0,
        MaxSize=10,
        DesiredCapacity=0,
        VPCZoneIdentifier=network.subnets["us-west-2a"],
        Tags=[{"Key": "managed", "Value": "", "PropagateAtLaunch": True}],
    )
    return client


@pytest.fixture
async def member(ec2: Any, network: Network, scaling: Any) -> str:
    (found,) = instance_ids(await ec2.create_fleet(**fleet(network, [("m5.large", "a")])))
    await scaling.attach_instances(AutoScalingGroupName=GROUP, InstanceIds=[found])
    return found


async def hook(
    scaling: Any,
    name: Any = HOOK,
    timeout: int = 60,
    transition: Any = TRANSITION,
    result: str = "CONTINUE",
) -> None:
    await scaling.put_lifecycle_hook(
        AutoScalingGroupName=GROUP,
        LifecycleHookName=name,
        LifecycleTransition=transition,
        HeartbeatTimeout=timeout,
        DefaultResult=result,
    )


async def end(scaling: Any, instance_id: Any) -> None:
    await scaling.terminate_instance_in_auto_scaling_group(
        InstanceId=instance_id, ShouldDecrementDesiredCapacity=True
    )


async def state(scaling: Any, instance_id: Any) -> str:
    answer = await scaling.describe_auto_scaling_instances(InstanceIds=[instance_id])
    return str(answer["AutoScalingInstances"][0]["LifecycleState"])


async def refusal(call: Any) -> str:
    with pytest.raises(ClientError) as refused:
        await call
    assert refused.value.response["Error"]["Code"] == "ValidationError"
    return str(refused.value)


async def test_an_instance_waits_until_its_hook_is_completed(
    scaling: Any, member: str, queue: Queue, control: ControlClient, aws_emulator_url: str
) -> None:
    metadata = Metadata(aws_emulator_url, member)
    await hook(scaling)
    assert metadata.read("autoscaling/target-lifecycle-state") == "InService"
    await end(scaling, member)
    event = await queue.find(EVENT)
    assert (event["version"], event["source"]) == ("0", "aws.autoscaling")
    detail = event["detail"]
    assert detail["EC2InstanceId"] == member
    assert (detail["AutoScalingGroupName"], detail["LifecycleHookName"]) == (GROUP, HOOK)
    assert detail["LifecycleTransition"] == TRANSITION
    assert await state(scaling, member) == "Terminating:Wait"
    assert control.states()[member] in {"pending", "running"}
    assert metadata.read("autoscaling/target-lifecycle-state") == "Terminated"
    token = {"LifecycleActionToken": detail["LifecycleActionToken"]}
    await scaling.record_lifecycle_action_heartbeat(**NAMES, **token)
    await scaling.complete_lifecycle_action(**NAMES, **token, LifecycleActionResult="CONTINUE")
    await eventually(lambda: control.states()[member] == "terminated")
    again = scaling.complete_lifecycle_action(
        **NAMES, **token, LifecycleActionResult="CONTINUE", InstanceId=member
    )
    assert "No active Lifecycle Action found" in await refusal(again)


@pytest.mark.slow
async def test_without_a_heartbeat_the_timeout_ends_it(
    scaling: Any, member: str, control: ControlClient
) -> None:
    await hook(scaling, timeout=1)
    await end(scaling, member)
    await eventually(lambda: control.states()[member] == "terminated")


async def test_all_hooks_are_waited_for_unless_one_abandons(
    scaling: Any, member: str, control: ControlClient
) -> None:
    """Launch hooks are others' business."""
    await hook(scaling)
    await hook(scaling, name="second")
    await hook(scaling, name="launch", transition="autoscaling:EC2_INSTANCE_LAUNCHING")
    await end(scaling, member)
    one = {"InstanceId": member, "LifecycleActionResult": "CONTINUE"}
    await scaling.complete_lifecycle_action(**NAMES, **one)
    assert await state(scaling, member) == "Terminating:Wait"
    other = {**one, "LifecycleHookName": "second", "LifecycleActionResult": "ABANDON"}
    await scaling.complete_lifecycle_action(AutoScalingGroupName=GROUP, **other)
    await eventually(lambda: control.states()[member] == "terminated")


async def test_a_group_without_hooks_ends_it_at_once(
    scaling: Any, member: str, control: ControlClient
) -> None:
    await end(scaling, member)
    await eventually(lambda: control.states()[member] == "terminated")


async def test_what_is_not_there_is_refused(scaling: Any, member: str) -> None:
    await hook(scaling)
    wrong = {"AutoScalingGroupName": "x", "LifecycleHookName": HOOK, "InstanceId": member}
    assert "not found" in await refusal(scaling.record_lifecycle_action_heartbeat(**wrong))
    none = scaling.record_lifecycle_action_heartbeat(**NAMES, InstanceId=member)
    assert "No active Lifecycle Action found" in await refusal(none)
    assert "No managed instance" in await refusal(end(scaling, "i-0"))
    twice = scaling.attach_instances(AutoScalingGroupName=GROUP, InstanceIds=[member])
    assert member in await refusal(twice)


async def test_descriptions_of_a_hook_and_a_group(scaling: Any, member: str) -> None:
    """Times in seconds; a hook waits a hundred heartbeats at most, and never over two days."""
    await hook(scaling, timeout=30)
    await hook(scaling, name="long", timeout=7200)
    found = await scaling.describe_lifecycle_hooks(AutoScalingGroupName=GROUP)
    times = {h["LifecycleHookName"]: h["GlobalTimeout"] for h in found["LifecycleHooks"]}
    assert times == {HOOK: 3000, "long": 172_800}
    filters = [{"Name": "auto-scaling-group", "Values": [GROUP]}]
    tags = (await scaling.describe_tags(Filters=filters))["Tags"]
    assert [tag["Key"] for tag in tags] == ["managed"]


async def test_the_control_endpoint_ends_any_instance_by_a_group(
    scaling: Any, ec2: Any, network: Network, control: ControlClient, queue: Queue
) -> None:
    """``dovetail cloud interrupt asg``: without a group of its own, an instance joins one."""
    (found,) = instance_ids(await ec2.create_fleet(**fleet(network, [("m5.large", "a")])))
    request = {"kind": "autoscaling", "instanceId": found, "heartbeatTimeoutSeconds": 40}
    for _ in range(2):
        control.post("interruptions", request)
    detail = (await queue.find(EVENT))["detail"]
    assert detail["EC2InstanceId"] == found
    named = {"AutoScalingGroupName": detail["AutoScalingGroupName"]}
    (made,) = (await scaling.describe_lifecycle_hooks(**named))["LifecycleHooks"]
    assert made["HeartbeatTimeout"] == 40
    assert await state(scaling, found) == "Terminating:Wait"
