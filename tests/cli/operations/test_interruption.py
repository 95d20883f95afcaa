"""``dovetail interruption check`` against the emulator: it has everything, then lacks one thing after the other."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import commands
from cli.operations.interruption import (
    SETUP_FILES,
    findings_of,
    lines_of,
    policy_fault,
    queue_name,
    settings_fault,
)
from shared.cloud.client.session import Cloud
from shared.cloud.event_rules import EVENT_RULES, LIFECYCLE
from shared.cloud.events import Rule
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError
from tests.services.conftest import Control
from tests.support.aws.emulator import aws_session

QUEUE = "dovetail-local"
SPOT = EVENT_RULES[1]


@pytest.fixture
async def cloud(aws_emulator_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cloud]:
    Control(aws_emulator_url).post("reset")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    made = await Cloud.connect(
        region="us-west-2", endpoint_url=aws_emulator_url, clock=SystemClock(), random=random.Random(1),
        user_agent="test",
    )  # fmt: skip
    yield made
    await made.close()


async def missing(cloud: Cloud, queue: str = QUEUE) -> dict[str, str]:
    return {what: text async for what, text in findings_of(cloud, queue) if text}


async def test_nothing_is_missing_where_everything_is(cloud: Cloud) -> None:
    """INT-02, INT-06: and each thing was looked at."""
    looked_at = [what async for what, _ in findings_of(cloud, QUEUE)]
    assert len(looked_at) == 4 + len(EVENT_RULES) - 1 + 4
    assert await missing(cloud) == {}


async def test_a_queue_that_is_not_there(cloud: Cloud) -> None:
    assert "INTERRUPTION_QUEUE" in (await missing(cloud, "nowhere"))["queue nowhere"]


async def test_a_rule_that_is_switched_off_counts_as_missing(
    cloud: Cloud, aws_emulator_url: str
) -> None:
    options: dict[str, Any] = {"region_name": "us-west-2", "endpoint_url": aws_emulator_url}
    async with aws_session().create_client("events", **options) as events:
        await events.disable_rule(Name=f"{QUEUE}-SpotInterruption")
        found = await missing(cloud)
        await events.enable_rule(Name=f"{QUEUE}-SpotInterruption")
    assert [*found] == [f"rule for {SPOT.source} / {SPOT.detail_type}"]


@pytest.mark.slow
async def test_what_lifecycle_hooks_need_is_looked_at_when_they_are_on(
    cloud: Cloud, aws_emulator_url: str
) -> None:
    """INT-41: lifecycle hooks."""
    looked_at = {what async for what, _ in findings_of(cloud, QUEUE, hooks=True)}
    rule = f"rule for {LIFECYCLE.source} / {LIFECYCLE.detail_type}"
    assert looked_at - {what async for what, _ in findings_of(cloud, QUEUE)} == {
        rule,
        "permission autoscaling:DescribeTags",
    }
    options: dict[str, Any] = {"region_name": "us-west-2", "endpoint_url": aws_emulator_url}
    async with aws_session().create_client("events", **options) as events:
        await events.disable_rule(Name=f"{QUEUE}-LifecycleTermination")
    fault = {"action": "DescribeTags", "code": "AccessDenied", "status": 403, "count": 50}
    Control(aws_emulator_url).post("faults", **fault)
    missing = {what async for what, text in findings_of(cloud, QUEUE, hooks=True) if text}
    Control(aws_emulator_url).post("clear")
    assert missing == {rule, "permission autoscaling:DescribeTags"}


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("GetQueueAttributes", "its attributes (sqs:GetQueueAttributes)"),
        ("ListRuleNamesByTarget", "rules with the queue as target"),
        ("DeleteMessage", "permission sqs:DeleteMessage"),
        ("ChangeMessageVisibility", "permission sqs:ChangeMessageVisibility"),
        ("DescribeInstanceStatus", "permission ec2:DescribeInstanceStatus"),
    ],
)
async def test_a_missing_permission_is_said_in_words(
    cloud: Cloud, aws_emulator_url: str, action: str, what: str
) -> None:
    fault = {"action": action, "code": "AccessDenied", "status": 403, "count": 50}
    Control(aws_emulator_url).post("faults", **fault)
    found = await missing(cloud)
    Control(aws_emulator_url).post("clear")
    assert f"allow {what.rpartition(' ')[2].strip('()')}" in found[what] or "events:" in found[what]


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ({"source": [SPOT.source], "detail-type": [SPOT.detail_type]}, True),
        ({"source": [SPOT.source]}, True),
        ({"source": ["aws.s3"]}, False),
        ({"source": [SPOT.source], "detail-type": [SPOT.detail_type], "detail": {"x": [1]}}, False),
        ({}, False),
    ],
)
def test_a_rule_that_takes_only_some_events_does_not_do(
    pattern: dict[str, Any], taken: bool
) -> None:
    assert Rule("r", True, pattern).matches(SPOT.source, SPOT.detail_type) is taken
    assert not Rule("r", False, pattern).matches(SPOT.source, SPOT.detail_type)


def allow(**changes: Any) -> str:
    service = {"Service": "events.amazonaws.com"}
    statement = {"Effect": "Allow", "Principal": service, "Action": "sqs:SendMessage", **changes}
    return json.dumps({"Statement": [statement]})


@pytest.mark.parametrize("text", [allow(), allow(Principal="*"), allow(Action=["SQS:*"])])
def test_a_policy_that_lets_events_send(text: str) -> None:
    assert policy_fault(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        allow(Effect="Deny"),
        allow(Action="sqs:ReceiveMessage"),
        allow(Principal={"AWS": "1"}),
    ],
)
def test_a_policy_that_does_not(text: str) -> None:
    assert policy_fault(text)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({}, ""),
        ({"DelaySeconds": "0", "SqsManagedSseEnabled": "true"}, ""),
        ({"KmsMasterKeyId": "arn:aws:kms:us-west-2:1:key/ours"}, ""),
        ({"DelaySeconds": "90"}, "DelaySeconds is 90"),
        ({"KmsMasterKeyId": "alias/aws/sqs"}, "SqsManagedSseEnabled"),
        ({"KmsMasterKeyId": "arn:aws:kms:us-west-2:1:alias/aws/sqs"}, "SqsManagedSseEnabled"),
    ],
)
def test_what_about_a_queue_keeps_notices_back(attributes: dict[str, str], said: str) -> None:
    """INT-02: a delay, and a key that EventBridge cannot use: it then drops events without a word."""
    found = settings_fault(attributes)
    assert said in found
    assert bool(found) is bool(said)


@pytest.mark.parametrize(
    ("given", "variables", "name"),
    [
        ("mine", {"INTERRUPTION_QUEUE": "theirs"}, "mine"),
        (None, {"INTERRUPTION_QUEUE": "theirs", "CLUSTER_NAME": "blue"}, "theirs"),
        (None, {"INTERRUPTION_QUEUE": "", "CLUSTER_NAME": "blue"}, "blue"),
    ],
)
def test_the_queue_is_the_one_that_is_named_else_that_of_the_service(
    given: str | None, variables: dict[str, str], name: str
) -> None:
    assert queue_name(given, variables) == name


def test_without_a_queue_nothing_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="--queue"):
        queue_name(None, {"CLUSTER_NAME": ""})


def test_what_is_missing_is_a_line_and_the_files_that_create_it_come_last() -> None:
    assert lines_of([("queue a", "")]) == ["ok       queue a"]
    assert lines_of([("queue a", ""), ("its policy", "no sender")]) == [
        "ok       queue a",
        "missing  its policy: no sender",
        SETUP_FILES,
    ]


@pytest.mark.parametrize(("queue", "code"), [(QUEUE, 0), ("nowhere", 1)])
def test_the_command_checks_the_queue_of_this_shell(
    aws_emulator_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queue: str, code: int
) -> None:
    """It sets the variables of AWS for this process, which ``monkeypatch`` restores."""
    Control(aws_emulator_url).post("reset")
    shell = {
        "AWS_ENDPOINT_URL": aws_emulator_url, "AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing", "DOVETAIL_DIRECTORY": str(tmp_path), "INTERRUPTION_QUEUE": queue,
    }  # fmt: skip
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(commands, ["interruption", "check", "--no-hooks"])
    assert done.exit_code == code
    lines = done.stdout.splitlines()
    assert ("missing  queue nowhere" in lines[0]) is bool(code)
    assert (lines[-1] == SETUP_FILES) is bool(code)
    done = CliRunner().invoke(commands, ["interruption", "check", "--no-hooks", "-o", "json"])
    assert done.exit_code == code
    first, *others = json.loads(done.stdout)
    assert first["check"] == f"queue {queue}"
    assert first["missing"].startswith("it does not exist") is bool(code)
    assert bool(others) is not bool(code)
