"""What an operator's check of the interruption plumbing reads: rules, targets, queue (INT-02, INT-06)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.cloud.event_rules import EVENT_RULES
from tests.local.aws.conftest import ControlClient


@pytest.fixture
async def queue(aws: Callable[..., Any], control: ControlClient) -> Any:
    sqs = await aws("sqs")
    url = (await sqs.get_queue_url(QueueName="dovetail-local"))["QueueUrl"]
    return (await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]))["Attributes"]


async def test_a_rule_for_each_kind_of_message_targets_the_queue(
    aws: Callable[..., Any], queue: Any
) -> None:
    events = await aws("events")
    rules = (await events.list_rules(NamePrefix="dovetail-local-"))["Rules"]
    found = set()
    for rule in rules:
        assert rule["State"] == "ENABLED"
        found |= set(json.loads(rule["EventPattern"])["detail-type"])
        targets = (await events.list_targets_by_rule(Rule=rule["Name"]))["Targets"]
        assert [target["Arn"] for target in targets] == [queue["QueueArn"]]
    assert found == {rule.detail_type for rule in EVENT_RULES}


async def test_rules_are_found_by_their_target(aws: Callable[..., Any], queue: Any) -> None:
    events = await aws("events")
    names = await events.list_rule_names_by_target(TargetArn=queue["QueueArn"])
    assert len(names["RuleNames"]) == len(EVENT_RULES)


async def test_a_disabled_rule_shows_as_disabled(aws: Callable[..., Any], queue: Any) -> None:
    events = await aws("events")
    await events.disable_rule(Name="dovetail-local-Rebalance")
    rule = await events.describe_rule(Name="dovetail-local-Rebalance")
    assert rule["State"] == "DISABLED"


async def test_the_queue_has_retention_encryption_and_a_policy(queue: Any) -> None:
    """INT-02: the queue's settings."""
    assert queue["MessageRetentionPeriod"] == "300"
    assert queue["SqsManagedSseEnabled"] == "true"
    allowed, denied = json.loads(queue["Policy"])["Statement"]
    assert allowed["Principal"] == {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]}
    assert (allowed["Effect"], denied["Effect"]) == ("Allow", "Deny")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
