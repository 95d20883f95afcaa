"""AWS on the loop: real clients, no thread, virtual time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from simulation.settings import CLUSTER
from tests.simulation.servers.conftest import Servers


async def queue_url(sqs: Any) -> str:
    return str((await sqs.get_queue_url(QueueName=CLUSTER))["QueueUrl"])


def test_a_long_poll_without_messages_lasts_as_long_as_it_asked(servers: Servers) -> None:
    async def poll() -> Any:
        async with servers.client("sqs") as sqs:
            url, begun = await queue_url(sqs), servers.loop.time()
            answer = await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)
            return answer.get("Messages"), servers.loop.time() - begun

    messages, seconds = servers.run(poll())
    assert not messages
    assert seconds == pytest.approx(20.0, abs=0.1)
    assert ("ReceiveMessage", None, "dovetail-test") in servers.calls


def test_a_long_poll_ends_when_a_message_arrives(servers: Servers) -> None:
    async def poll() -> Any:
        async with servers.client("sqs") as sqs:
            url, begun = await queue_url(sqs), servers.loop.time()
            servers.loop.call_later(5.0, servers.aws.control, "messages", {"body": "here"})
            answer = await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)
            return [one["Body"] for one in answer["Messages"]], servers.loop.time() - begun

    bodies, seconds = servers.run(poll())
    assert bodies == ["here"]
    assert seconds == pytest.approx(5.0, abs=0.1)


def test_a_long_poll_gets_a_message_that_its_first_reader_did_not_delete(servers: Servers) -> None:
    async def poll() -> Any:
        async with servers.client("sqs") as sqs:
            url = await queue_url(sqs)
            servers.aws.control("messages", {"body": "again"})
            await sqs.receive_message(QueueUrl=url, VisibilityTimeout=7)
            begun = servers.loop.time()
            answer = await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)
            return len(answer["Messages"]), servers.loop.time() - begun

    number, seconds = servers.run(poll())
    assert number == 1
    assert seconds == pytest.approx(7.0, abs=0.1)


def test_mixed_messages_arrive_several_times_and_out_of_order(servers: Servers) -> None:
    async def poll() -> Any:
        servers.aws.mix_messages(3, 60.0)
        for number in range(10):
            servers.aws.control("messages", {"body": str(number)})
        found: list[str] = []
        async with servers.client("sqs") as sqs:
            url = await queue_url(sqs)
            while len(found) < 30:
                answer = await sqs.receive_message(
                    QueueUrl=url, WaitTimeSeconds=20, MaxNumberOfMessages=10
                )
                for one in answer.get("Messages", ()):
                    found.append(one["Body"])
                    await sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
        return found

    found = servers.run(poll())
    assert sorted(found) == sorted(str(number) for number in range(10) for _ in range(3))
    assert found[:10] != sorted(found[:10])


def test_the_answer_of_a_call_is_lost_after_its_effect(servers: Servers) -> None:
    servers.aws.control(
        "faults", {"action": "TerminateInstances", "count": 1, "status": 0, "mode": "after"}
    )

    async def terminate() -> Any:
        (instance,) = await servers.launch()
        async with servers.client("ec2") as ec2:
            with pytest.raises(BotoCoreError):
                await ec2.terminate_instances(InstanceIds=[instance])
        return servers.instance(instance).state

    assert servers.run(terminate()) == "shutting-down"
    assert ("TerminateInstances", "ConnectionClosed", "dovetail-test") in servers.calls


def test_a_slow_answer_takes_virtual_time_and_holds_up_nobody_else(servers: Servers) -> None:
    servers.aws.control(
        "faults",
        {"action": "DescribeVpcs", "count": 1, "mode": "slow", "delaySeconds": 30},
    )

    async def describe() -> Any:
        async with servers.client("ec2") as ec2:
            begun = servers.loop.time()
            slow = asyncio.create_task(ec2.describe_vpcs())
            await asyncio.sleep(1)
            await ec2.describe_subnets()
            between = servers.loop.time() - begun
            await slow
            return between, servers.loop.time() - begun

    between, whole = servers.run(describe())
    assert between < 2
    assert whole == pytest.approx(30, abs=1)


def test_a_new_launch_template_is_unknown_for_the_lag(servers: Servers) -> None:
    servers.aws.control("settings", {"templateLagSeconds": 60})

    async def shown() -> Any:
        async with servers.client("ec2") as ec2:
            await ec2.create_launch_template(
                LaunchTemplateName="new", LaunchTemplateData={"InstanceType": "m5.large"}
            )
            before = (await ec2.describe_launch_templates())["LaunchTemplates"]
            with pytest.raises(ClientError, match="NotFound"):
                await ec2.create_fleet(
                    Type="instant",
                    LaunchTemplateConfigs=[
                        {
                            "LaunchTemplateSpecification": {
                                "LaunchTemplateName": "new",
                                "Version": "$Latest",
                            }
                        }
                    ],
                    TargetCapacitySpecification={"TotalTargetCapacity": 1},
                )
            await asyncio.sleep(61)
            after = (await ec2.describe_launch_templates())["LaunchTemplates"]
            return len(before), len(after)

    assert servers.run(shown()) == (0, 1)


def test_the_tags_of_a_new_instance_show_later_than_the_instance(servers: Servers) -> None:
    servers.aws.control("settings", {"tagLagSeconds": 120})

    async def shown() -> Any:
        (instance,) = await servers.launch()
        async with servers.client("ec2") as ec2:

            async def tags() -> list[Any]:
                answer = await ec2.describe_instances(InstanceIds=[instance])
                return list(answer["Reservations"][0]["Instances"][0].get("Tags", ()))

            before = await tags()
            await asyncio.sleep(121)
            return len(before), len(await tags())

    assert servers.run(shown()) == (0, 1)


def test_states_of_instances_are_reported_without_a_thread(servers: Servers) -> None:
    threads = threading.active_count()

    async def live() -> Any:
        (instance,) = await servers.launch()
        await asyncio.sleep(10)
        servers.aws.control(
            "interruptions",
            {"kind": "state-change", "state": "terminated", "instanceId": instance},
        )
        await asyncio.sleep(10)
        return instance

    instance = servers.run(live())
    states = ["pending", "running", "shutting-down", "terminated"]
    assert servers.states == [(instance, state) for state in states]
    assert threading.active_count() == threads


def test_an_order_to_nobody_is_no_error_and_a_wrong_one_is(servers: Servers) -> None:
    where = {"percent": 50, "seed": 1}
    answer = servers.aws.control("interruptions", {"kind": "spot", "where": where})
    assert answer["error"] == "no instance"
    with pytest.raises(ValueError, match="no such path"):
        servers.aws.control("intteruptions", {})
