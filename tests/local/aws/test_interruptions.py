"""Events travel from the emulator through EventBridge rules to the queue (INT-06, INT-10 to
INT-14).
"""

from __future__ import annotations

import json

import pytest

from tests.local.aws.conftest import eventually, fleet, instance_ids


class Queue:
    """Reads the seeded queue until a wanted message comes."""

    def __init__(self, sqs, url) -> None:
        self.sqs, self.url = sqs, url
        self.seen: list[dict] = []

    async def find(self, detail_type, **detail) -> dict:
        async def found() -> dict | None:
            answer = await self.sqs.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            self.seen += [json.loads(message["Body"]) for message in answer.get("Messages", [])]
            wanted = {key.replace("_", "-"): value for key, value in detail.items()}
            for event in self.seen:
                if (
                    event["detail-type"] == detail_type
                    and wanted.items() <= event["detail"].items()
                ):
                    return event
            return None

        return await eventually(found)


@pytest.fixture
async def queue(aws, control) -> Queue:
    sqs = await aws("sqs")
    return Queue(sqs, (await sqs.get_queue_url(QueueName="dovetail-local"))["QueueUrl"])


@pytest.fixture
async def instance_id(ec2, network, control) -> str:
    request = fleet(network, [("m5.large", "a")], capacity_type="spot")
    (instance_id,) = instance_ids(await ec2.create_fleet(**request))
    return instance_id


async def test_a_spot_warning_reaches_the_queue_and_the_instance_ends(
    control, queue, instance_id
) -> None:
    """INT-10; the notice is shortened."""
    control.post("settings", {"interruptionNoticeSeconds": 0.5})
    control.post("interruptions", {"kind": "spot", "instanceId": instance_id})
    warning = await queue.find(
        "EC2 Spot Instance Interruption Warning",
        instance_id=instance_id,
        instance_action="terminate",
    )
    assert warning["version"] == "0"
    assert warning["source"] == "aws.ec2"
    assert warning["region"] == "us-west-2"
    assert warning["time"].endswith("Z")
    assert warning["resources"] == [f"arn:aws:ec2:us-west-2a:instance/{instance_id}"]
    await eventually(lambda: control.states()[instance_id] == "terminated")
    await queue.find(
        "EC2 Instance State-change Notification", instance_id=instance_id, state="terminated"
    )


async def test_the_warned_instance_lives_until_the_notice_is_over(control, instance_id) -> None:
    control.post("interruptions", {"kind": "spot", "instanceId": instance_id})
    assert control.states()[instance_id] in {"pending", "running"}


async def test_a_rebalance_recommendation_reaches_the_queue(control, queue, instance_id) -> None:
    control.post("interruptions", {"kind": "rebalance", "instanceId": instance_id})
    await queue.find("EC2 Instance Rebalance Recommendation", instance_id=instance_id)


async def test_a_health_event_names_every_instance(control, queue, instance_id) -> None:
    """INT-13."""
    control.post("interruptions", {"kind": "health", "instanceId": instance_id})
    event = await queue.find("AWS Health Event", service="EC2", eventTypeCategory="scheduledChange")
    assert event["source"] == "aws.health"
    assert event["detail"]["affectedEntities"] == [{"entityValue": instance_id}]


async def test_every_change_of_state_is_announced(control, queue, ec2, instance_id) -> None:
    """INT-12."""
    await ec2.terminate_instances(InstanceIds=[instance_id])
    for state in ("pending", "shutting-down", "terminated"):
        await queue.find(
            "EC2 Instance State-change Notification", instance_id=instance_id, state=state
        )


async def test_a_state_change_to_stopping_really_stops(control, queue, instance_id) -> None:
    await eventually(lambda: control.states()[instance_id] == "running")
    body = {"kind": "state-change", "instanceId": instance_id, "state": "stopping"}
    control.post("interruptions", body)
    await queue.find(
        "EC2 Instance State-change Notification", instance_id=instance_id, state="stopping"
    )
    await eventually(lambda: control.states()[instance_id] == "stopped")


async def test_a_foreign_instance_can_be_announced(control, queue) -> None:
    """INT-07: messages about other clusters' instances exist."""
    foreign = "i-0123456789abcdef0"
    control.post("interruptions", {"kind": "rebalance", "instanceId": foreign, "foreign": True})
    await queue.find("EC2 Instance Rebalance Recommendation", instance_id=foreign)
