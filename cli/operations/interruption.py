"""``dovetail interruption check``: check the queue, its policy, the rules and the permissions for interruption notices.

The check only reads (INT-02, INT-06). When the check itself lacks a permission, its line names the permission, and
everything that could not be checked without it counts as missing.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from cli.options import OutputOption, group
from cli.printing import print_line
from cli.stack.environment import StackOption, variables_of
from cli.text import print_json
from local.stack import DEFAULT_DIRECTORY
from shared.cloud.client.session import Cloud
from shared.cloud.event_rules import EVENT_RULES, LIFECYCLE, EventRule
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, DovetailError, NotFound

interruption = group("Interruption notices: check the queue and its rules.")
SENDER = "events.amazonaws.com"
AWS_OWN_KEY = "alias/aws/sqs"
SETUP_FILES = "deploy/iam creates all of it with CloudFormation or Terraform"
Finding = tuple[str, str]
"""(what was checked, what is missing); the second is empty when nothing is missing."""
Call = Callable[[], Awaitable[object]]


QueueOption = Annotated[
    str | None, typer.Option(help="Name of the queue (INTERRUPTION_QUEUE, else the cluster).")
]
HooksOption = Annotated[
    bool | None,
    typer.Option(help="Lifecycle hooks are handled (LIFECYCLE_HOOKS is set, and not off)."),
]


@interruption.command("check")
def check(
    queue: QueueOption = None,
    hooks: HooksOption = None,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Check that EC2 events reach the interruption service: queue, policy, rules, permissions.

    Calls SQS, EventBridge and EC2 with the credentials and the region of this shell (or of the stack in this
    directory); the credentials of the service's role give the best answer. Nothing is changed; a message that the test
    receives is visible again at once. With LIFECYCLE_HOOKS in this shell (or --hooks) the check covers lifecycle hooks
    of auto scaling groups, too.

    Exit code 1: something is missing.

    Examples:

      dovetail interruption check

      AWS_REGION=eu-central-1 dovetail interruption check --queue production
    """
    variables = {**os.environ, **variables_of(Path(directory))}
    name = queue_name(queue, variables)
    if hooks is None:
        hooks = variables.get("LIFECYCLE_HOOKS", "off") != "off"
    findings = asyncio.run(_ask(name, variables, hooks=hooks))
    if output == "json":
        print_json([{"check": what, "missing": missing} for what, missing in findings])
    else:
        for line in lines_of(findings):
            print_line(line)
    if _any_missing(findings):
        raise typer.Exit(1)


def queue_name(given: str | None, variables: Mapping[str, str]) -> str:
    """The queue to check: as given, or as the service chooses it. Raises ConfigurationError when none is named."""
    name = given or variables.get("INTERRUPTION_QUEUE") or variables.get("CLUSTER_NAME", "")
    if not name:
        raise ConfigurationError("no queue is named; give --queue, or set INTERRUPTION_QUEUE")
    return name


def lines_of(findings: Sequence[Finding]) -> list[str]:
    """A line per finding. If something is missing, the last line names the files that create it."""
    lines = [
        f"missing  {what}: {missing}" if missing else f"ok       {what}"
        for what, missing in findings
    ]
    return [*lines, SETUP_FILES] if _any_missing(findings) else lines


def _any_missing(findings: Sequence[Finding]) -> bool:
    return any(missing for _, missing in findings)


async def _ask(name: str, variables: Mapping[str, str], *, hooks: bool) -> list[Finding]:
    # The AWS client reads credentials from the environment of this process alone.
    os.environ.update({key: value for key, value in variables.items() if key.startswith("AWS_")})
    cloud = await Cloud.connect(
        region=variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or "",
        endpoint_url=variables.get("AWS_ENDPOINT_URL"),
        clock=SystemClock(),
        random=Random(),
        user_agent="dovetail-check",
    )
    try:
        return [finding async for finding in findings_of(cloud, name, hooks=hooks)]
    finally:
        await cloud.close()


async def findings_of(cloud: Cloud, name: str, *, hooks: bool = False) -> AsyncIterator[Finding]:
    """One finding per requirement. With ``hooks``: those of lifecycle hooks, too.

    Raises TransientError when AWS does not answer.
    """
    try:
        url = await cloud.sqs.queue_url(name)
    except NotFound:
        yield f"queue {name}", "it does not exist; create it, or correct INTERRUPTION_QUEUE"
        return
    except DovetailError as error:
        yield f"queue {name}", error.message
        return
    yield f"queue {name}", ""
    async for finding in _attributes(cloud, url, hooks=hooks):
        yield finding
    for permission, call in _permissions(cloud, url, hooks=hooks).items():
        yield f"permission {permission}", await _problem(call)


async def _attributes(cloud: Cloud, url: str, *, hooks: bool) -> AsyncIterator[Finding]:
    """The queue's policy, settings and rules. Its attributes have the ARN that the rules must name."""
    attributes, problem = {}, ""
    try:
        attributes = await cloud.sqs.attributes(url)
    except DovetailError as error:
        problem = error.message
    yield "its attributes (sqs:GetQueueAttributes)", problem
    if attributes:
        yield "its policy", policy_fault(attributes.get("Policy", ""))
        yield "its settings", settings_fault(attributes)
        required = [rule for rule in EVENT_RULES if hooks or rule != LIFECYCLE]
        async for finding in _rules(cloud, attributes.get("QueueArn", ""), required):
            yield finding


async def _rules(cloud: Cloud, arn: str, required: list[EventRule]) -> AsyncIterator[Finding]:
    try:
        rules = await cloud.events.rules_of(arn)
    except DovetailError as error:
        yield "rules with the queue as target", error.message
        return
    for one in required:
        found = any(rule.matches(one.source, one.detail_type) for rule in rules)
        fault = "no enabled rule sends all of these to the queue"
        yield f"rule for {one.source} / {one.detail_type}", "" if found else fault


def _permissions(cloud: Cloud, url: str, *, hooks: bool) -> dict[str, Call]:
    """Permissions that can be tried. Completing a lifecycle hook cannot: it needs a terminating instance."""
    receive = partial(cloud.sqs.receive, url, wait_seconds=0, maximum=1, visibility_seconds=0)
    calls: dict[str, Call] = {
        "sqs:ReceiveMessage": receive,
        "sqs:DeleteMessage": partial(cloud.sqs.may_delete, url),
        "sqs:ChangeMessageVisibility": partial(cloud.sqs.may_hide, url),
        "ec2:DescribeInstanceStatus": cloud.instance_statuses.problems,
    }
    if hooks:
        calls["autoscaling:DescribeTags"] = cloud.autoscaling.may_read_tags
    return calls


async def _problem(call: Call) -> str:
    try:
        await call()
    except DovetailError as error:
        return error.message
    return ""


def policy_fault(text: str) -> str:
    """The fault of a queue's policy (INT-02); empty when EventBridge may send."""
    try:
        statements: Any = json.loads(text or "{}").get("Statement") or []
    except (ValueError, AttributeError):
        return "it is not a JSON object"
    for one in statements if isinstance(statements, list) else [statements]:
        actions = {str(action).lower() for action in _several(one.get("Action"))}
        if one.get("Effect") == "Allow" and actions & {"sqs:sendmessage", "sqs:*", "*"}:
            principal = one.get("Principal")
            services = principal.get("Service") if isinstance(principal, Mapping) else None
            if principal == "*" or SENDER in _several(services):
                return ""
    return f"{SENDER} may not send: allow sqs:SendMessage"


def settings_fault(attributes: Mapping[str, str]) -> str:
    """The setting of a queue that delays or blocks notices (INT-02); empty when there is none."""
    delay = attributes.get("DelaySeconds") or "0"
    if delay != "0":
        return f"DelaySeconds is {delay}, which delays every notice; set it to 0"
    if attributes.get("KmsMasterKeyId", "").endswith(AWS_OWN_KEY):
        return f"EventBridge may not use the key {AWS_OWN_KEY}: let SQS manage the encryption (SqsManagedSseEnabled)"
    return ""


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
