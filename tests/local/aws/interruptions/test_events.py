"""Events travel from the emulator through EventBridge rules to the queue (INT-06, INT-10 to
INT-14).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.aws.interruptions.malformed import MALFORMED
from tests.local.aws.conftest import ControlClient, Network, eventually, fleet, instance_ids


class Queue:
    """Reads the seeded queue until a wanted message comes."""

    def __init__(self, sqs: Any, url: Any) -> None:
        self.sqs, self.url = sqs, url
        self.seen: list[dict[str, Any]] = []

    async def find(self, detail_type: Any, **detail: Any) -> dict[str, Any]:
        async def found() -> dict[str, Any] | None:
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

        event: dict[str, Any] = await eventually(found)
        return event


@pytest.fixture
async def queue(aws: Callable[..., Any], control: ControlClient) -> Queue:
    sqs = await aws("sqs")
    return Queue(sqs, (await sqs.get_queue_url(QueueName="dovetail-local"))["QueueUrl"])


@pytest.fixture
async def instance_id(ec2: Any, network: Network, control: ControlClient) -> str:
    request = fleet(network, [("m5.large", "a")], capacity_type="spot")
    (instance_id,) = instance_ids(await ec2.create_fleet(**request))
    return instance_id


async def test_a_message_of_now_is_not_too_old_when_time_was_stepped(
    control: ControlClient, queue: Queue, instance_id: str
) -> None:
    """moto stamps messages with real time: a step beyond their retention must not swallow them."""
    control.post("clock", {"stepSeconds": 3600})
    control.post("interruptions", {"kind": "rebalance", "instanceId": instance_id})
    assert await queue.find("EC2 Instance Rebalance Recommendation", instance_id=instance_id)


@pytest.mark.slow
async def test_a_spot_warning_reaches_the_queue_and_the_instance_ends(
    control: ControlClient, queue: Queue, instance_id: str
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


async def test_the_warned_instance_lives_until_the_notice_is_over(
    control: ControlClient, instance_id: str
) -> None:
    control.post("interruptions", {"kind": "spot", "instanceId": instance_id})
    assert control.states()[instance_id] in {"pending", "running"}


async def test_a_rebalance_recommendation_reaches_the_queue(
    control: ControlClient, queue: Queue, instance_id: str
) -> None:
    control.post("interruptions", {"kind": "rebalance", "instanceId": instance_id})
    await queue.find("EC2 Instance Rebalance Recommendation", instance_id=instance_id)


async def test_a_warning_of_a_capacity_reservation_reaches_the_queue(
    control: ControlClient, queue: Queue, instance_id: str
) -> None:
    """INT-14: the instance is not ended by the emulator."""
    control.post("interruptions", {"kind": "capacity-reservation", "instanceId": instance_id})
    kind = "EC2 Capacity Reservation Instance Interruption Warning"
    await queue.find(kind, instance_id=instance_id, instance_action="terminate")
    assert control.states()[instance_id] in {"pending", "running"}


async def test_a_health_event_names_every_instance(
    control: ControlClient, queue: Queue, instance_id: str
) -> None:
    """INT-13: AWS Health events."""
    control.post("interruptions", {"kind": "health", "instanceId": instance_id})
    event = await queue.find("AWS Health Event", service="EC2", eventTypeCategory="scheduledChange")
    assert event["source"] == "aws.health"
    assert event["detail"]["affectedEntities"] == [{"entityValue": instance_id}]


@pytest.mark.slow
async def test_every_change_of_state_is_announced(
    control: ControlClient, queue: Queue, ec2: Any, instance_id: str
) -> None:
    """INT-12: state changes of instances."""
    await ec2.terminate_instances(InstanceIds=[instance_id])
    for state in ("pending", "shutting-down", "terminated"):
        await queue.find(
            "EC2 Instance State-change Notification", instance_id=instance_id, state=state
        )


async def test_a_state_change_to_stopping_really_stops(
    control: ControlClient, queue: Queue, instance_id: str
) -> None:
    await eventually(lambda: control.states()[instance_id] == "running")
    body = {"kind": "state-change", "instanceId": instance_id, "state": "stopping"}
    control.post("interruptions", body)
    await queue.find(
        "EC2 Instance State-change Notification", instance_id=instance_id, state="stopping"
    )
    await eventually(lambda: control.states()[instance_id] == "stopped")


async def test_a_foreign_instance_can_be_announced(control: ControlClient, queue: Queue) -> None:
    """INT-07: messages about other clusters' instances exist."""
    foreign = "i-0123456789abcdef0"
    control.post("interruptions", {"kind": "rebalance", "instanceId": foreign, "foreign": True})
    await queue.find("EC2 Instance Rebalance Recommendation", instance_id=foreign)


async def launch_spot(ec2: Any, network: Network, letters: str) -> dict[str, str]:
    """Instance id by zone letter."""
    found = {}
    for letter in letters:
        request = fleet(network, [("m5.large", letter)], capacity_type="spot")
        (found[letter],) = instance_ids(await ec2.create_fleet(**request))
    return found


async def test_a_whole_zone_is_interrupted_at_once(
    control: ControlClient, ec2: Any, network: Network
) -> None:
    launched = await launch_spot(ec2, network, "abc")
    on_demand = instance_ids(await ec2.create_fleet(**fleet(network, [("m5.large", "a")])))
    where = {"zone": "us-west-2a", "capacityType": "spot"}
    answer = control.post("interruptions", {"kind": "spot", "where": where})
    assert answer["instanceIds"] == [launched["a"]]
    everything = control.post("interruptions", {"kind": "rebalance", "where": {}})["instanceIds"]
    assert everything == [*launched.values(), *on_demand]


async def test_a_share_is_drawn_by_its_seed(
    control: ControlClient, ec2: Any, network: Network
) -> None:
    await ec2.create_fleet(**fleet(network, [("m5.large", "a")], total=20))

    def drawn(seed: int) -> list[str]:
        body = {"kind": "rebalance", "where": {"percent": 30, "seed": seed}}
        return list(control.post("interruptions", body)["instanceIds"])

    assert len(drawn(1)) == 6
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


async def test_copies_are_the_same_message_more_than_once(
    control: ControlClient, queue: Queue, instance_id: str
) -> None:
    """SQS delivers at least once."""
    control.post("interruptions", {"kind": "rebalance", "instanceId": instance_id, "copies": 3})
    kind = "EC2 Instance Rebalance Recommendation"

    async def received() -> list[str]:
        answer = await queue.sqs.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10)
        queue.seen += [json.loads(message["Body"]) for message in answer.get("Messages", [])]
        return [event["id"] for event in queue.seen if event["detail-type"] == kind]

    async def all_three() -> list[str] | None:
        ids = await received()
        return ids if len(ids) == 3 else None

    assert len(set(await eventually(all_three))) == 1


async def test_broken_messages_reach_the_queue_as_they_are(
    control: ControlClient, queue: Queue
) -> None:
    """INT-04: when messages are deleted; INT-05: how a message's kind is found."""
    for name, body in MALFORMED.items():
        control.post("messages", {"malformed": name})
        answer = await queue.sqs.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=1)
        assert [message["Body"] for message in answer["Messages"]] == [body]


async def test_no_broken_message_is_one_that_dovetail_should_act_on() -> None:
    known = 0
    for body in MALFORMED.values():
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            continue
        detail = parsed.get("detail") if isinstance(parsed, dict) else None
        known += isinstance(detail, dict) and "instance-action" in detail
    assert known == 0


async def test_a_queue_outage_ends(control: ControlClient, queue: Queue) -> None:
    control.post("faults", {"action": "sqs:*", "code": "ServiceUnavailable", "status": 503})
    with pytest.raises(ClientError) as refused:
        await queue.sqs.receive_message(QueueUrl=queue.url)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    await queue.sqs.receive_message(QueueUrl=queue.url)
