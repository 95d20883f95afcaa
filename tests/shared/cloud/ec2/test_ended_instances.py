"""Whose doing the end of an instance was (LCH-67)."""

from __future__ import annotations

import pytest

from shared.cloud.ec2.ended_instances import ended_by_itself, termination_message, would_end_again
from shared.cloud.ec2.records import Instance, instance_from


def instance(state: str, reason: str) -> Instance:
    return Instance(
        id="i-1", instance_type="m5.large", zone="us-west-2a", capacity_type="spot", image_id="ami-1",
        state=state, launched_at=0.0, private_dns_name="", tags={}, subnet_id="subnet-1",
        security_group_ids=(), state_reason=reason,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "reason", "itself", "again"),
    [
        ("terminated", "Client.InternalError: Client error on launch", True, True),
        ("shutting-down", "Client.VolumeLimitExceeded: Volume limit exceeded", True, True),
        ("terminated", "Server.SpotInstanceTermination: Spot instance termination", True, False),
        ("terminated", "Client.UserInitiatedShutdown: User initiated shutdown", False, False),
        ("terminated", "", False, False),
        ("running", "Client.InternalError: Client error on launch", False, False),
    ],
)
def test_ec2s_words_tell_who_ended_it(state: str, reason: str, itself: bool, again: bool) -> None:
    ended = instance(state, reason)
    assert ended_by_itself(ended) is itself
    assert would_end_again(ended) is again


def test_a_key_that_may_not_be_used_is_named() -> None:
    """ACC-39: EC2 only says Client.InternalError."""
    assert "KMS key" in termination_message(
        instance("terminated", "Client.InternalError: on launch")
    )
    assert "KMS key" not in termination_message(instance("terminated", ""))
    assert "no reason given" in termination_message(instance("terminated", ""))


@pytest.mark.parametrize(
    ("transition", "at"),
    [
        ("User initiated (2026-11-26 08:10:00 GMT)", 1_795_680_600.0),
        ("User initiated (2026-11-26 08:10:00 UTC)", 1_795_680_600.0),
        ("Server.SpotInstanceTermination", 0.0),
        ("", 0.0),
    ],
)
def test_when_an_instance_was_stopped_is_read_from_its_transition(
    transition: str, at: float
) -> None:
    """LCH-80: EC2 writes it as text."""
    found = instance_from({"InstanceId": "i-1", "StateTransitionReason": transition})
    assert found.stopped_at == at
