"""Queue, rules and policies as files: CloudFormation and Terraform say the same, and what the spec says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.operations.interruption import policy_fault
from shared.cloud.client.models import OPERATIONS
from shared.cloud.event_rules import EVENT_RULES

IAM = Path(__file__).resolve().parents[2] / "deploy" / "iam"
DOCS = (IAM.parents[1] / "docs" / "behaviour" / "interruption.md").read_text()
TERRAFORM = (IAM / "terraform" / "main.tf").read_text()
POLICIES = {path.stem: path.read_text() for path in sorted((IAM / "policies").glob("*.json"))}
RULES = json.loads((IAM / "rules.json").read_text())
ROLES: dict[str, list[str]] = json.loads((IAM / "roles.json").read_text())
PLACEHOLDERS = {
    "AWS::Partition": "partition",
    "AWS::Region": "region",
    "AWS::AccountId": "account",
    "ClusterName": "cluster",
    "NodeRoleName": "node_role",
}


class _Tags(yaml.SafeLoader):
    """CloudFormation's short functions as ``{"!Sub": value}``."""


def _function(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
    assert isinstance(node, yaml.ScalarNode)
    return {name: loader.construct_scalar(node)}


_Tags.add_multi_constructor("!", _function)
RESOURCES: dict[str, Any] = yaml.load((IAM / "cloudformation.yaml").read_text(), _Tags)["Resources"]


def document(sub: dict[str, str]) -> Any:
    """A policy of the CloudFormation template with Terraform's names of the placeholders."""
    return json.loads(re.sub(r"\$\{([^}]+)\}", lambda m: f"${{{PLACEHOLDERS[m[1]]}}}", sub["Sub"]))


def statements(*policies: str) -> list[dict[str, Any]]:
    return [one for name in policies for one in json.loads(POLICIES[name])["Statement"]]


def actions(service: str) -> set[str]:
    """All that the role of this service may do, whatever to."""
    return {action for one in statements(*ROLES[service]) for action in one["Action"]}


def of_type(kind: str) -> list[dict[str, Any]]:
    return [one["Properties"] for one in RESOURCES.values() if one["Type"] == kind]


def test_the_queue_is_that_of_the_spec_in_both() -> None:
    """INT-02: the queue's settings."""
    (queue,) = of_type("AWS::SQS::Queue")
    assert queue["QueueName"] == {"Ref": "ClusterName"}
    assert (queue["MessageRetentionPeriod"], queue["SqsManagedSseEnabled"]) == (300, True)
    assert re.search(r"name\s+= var.cluster_name", TERRAFORM)
    assert re.search(r"message_retention_seconds = 300\b", TERRAFORM)
    assert re.search(r"sqs_managed_sse_enabled\s+= true", TERRAFORM)


def test_events_may_send_and_only_over_tls() -> None:
    """INT-02: the queue's settings."""
    (bound,) = of_type("AWS::SQS::QueuePolicy")
    policy = json.loads(POLICIES["queue"])
    assert document(bound["PolicyDocument"]) == policy
    allow, deny = policy["Statement"]
    assert allow["Principal"]["Service"] == ["events.amazonaws.com", "sqs.amazonaws.com"]
    assert allow["Action"] == "sqs:SendMessage"
    assert (deny["Effect"], deny["Principal"]) == ("Deny", "*")
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert policy_fault(POLICIES["queue"]) == ""


def test_the_rules_are_the_same_in_both() -> None:
    """INT-06: rules that fill the queue; INT-41: lifecycle hooks."""
    assert {(name, rule["source"][0], rule["detail-type"][0]) for name, rule in RULES.items()} == {
        *EVENT_RULES
    }
    assert all(f"| {rule.detail_type}" in DOCS for rule in EVENT_RULES)
    made = of_type("AWS::Events::Rule")
    assert {
        r["Name"]["Sub"].removeprefix("${ClusterName}-"): r["EventPattern"] for r in made
    } == RULES
    for rule in made:
        (target,) = rule["Targets"]
        assert target["Arn"] == {"GetAtt": "InterruptionQueue.Arn"}
        assert rule["State"] == "ENABLED"
    assert TERRAFORM.count("for_each      = local.rules") == 1
    assert "arn       = aws_sqs_queue.interruption.arn" in TERRAFORM


def test_every_policy_is_the_same_in_both() -> None:
    """IAM-01: split as the spec says, and one for the check."""
    names = {*POLICIES} - {"queue"}
    made = {
        p["ManagedPolicyName"]["Sub"].removeprefix("Dovetail-${ClusterName}-"): document(p["PolicyDocument"])
        for p in of_type("AWS::IAM::ManagedPolicy")
    }  # fmt: skip
    assert made == {name: json.loads(POLICIES[name]) for name in names}
    assert "policies = toset(flatten(values(local.services)))" in TERRAFORM
    assert 'services = jsondecode(file("${path.module}/../roles.json"))' in TERRAFORM
    assert {name for listed in ROLES.values() for name in listed} == names
    assert names >= {
        "node-launch", "node-termination", "iam-integration", "eks-integration", "interruption", "zonal-shift",
        "resource-discovery",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_is_short_enough_and_names_only_what_is_filled_in(name: str) -> None:
    """A managed policy has at most 6,144 characters without blanks."""
    assert {*re.findall(r"\$\{([^}]+)\}", POLICIES[name])} <= {*PLACEHOLDERS.values()}
    long = POLICIES[name].replace("${cluster}", "c" * 40).replace("${region}", "ap-southeast-2")
    assert len(re.sub(r"\s", "", long)) <= 6144


def test_every_call_that_dovetail_makes_is_allowed() -> None:
    """No permission is found missing in production."""
    statements = [s for text in POLICIES.values() for s in json.loads(text)["Statement"]]
    allowed = {action for s in statements if s["Effect"] == "Allow" for action in [s["Action"]]
               if isinstance(action, str)}  # fmt: skip
    allowed |= {a for s in statements if isinstance(s["Action"], list) for a in s["Action"]}
    called = {
        # IAM knows one permission for one message and for a batch.
        f"{service}:{operation.removesuffix('Batch') if service == 'sqs' else operation}"
        for service, operations in OPERATIONS.items()
        for operation in operations
    }
    assert called <= allowed, called - allowed


def test_what_is_made_or_ended_must_be_our_own() -> None:
    """IAM-01: no statement may change something without a condition."""
    both = (*statements("node-launch"), *statements("node-termination"))
    for statement in both:
        uses = statement["Sid"] == "UseForLaunch"
        assert uses or "kubernetes.io/cluster/${cluster}" in json.dumps(statement["Condition"])


def test_only_groups_of_this_cluster_are_told_that_their_hooks_may_end() -> None:
    """INT-41: what describes knows no resources."""
    ends, sees = json.loads(POLICIES["lifecycle-hooks"])["Statement"]
    assert ends["Condition"]["StringEquals"] == {
        "autoscaling:ResourceTag/kubernetes.io/cluster/${cluster}": "owned"
    }
    assert all(":Describe" in action for action in sees["Action"])


LAUNCHING = {"ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"}


def test_no_role_can_both_launch_and_terminate() -> None:
    """Design 1: what the launcher wants to end it orders."""
    assert actions("launcher") >= LAUNCHING
    assert "ec2:TerminateInstances" in actions("terminator")
    for service in ROLES:
        may_end = "ec2:TerminateInstances" in actions(service)
        assert not (may_end and actions(service) & LAUNCHING), service


def test_the_docs_have_the_same_table_of_roles() -> None:
    """``x`` where a service needs a policy."""
    table = DOCS[DOCS.index("### Which policy for which service") :]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    told: dict[str, set[str]] = {service: set() for service in ROLES}
    for row in rows:
        names, *marks = row.strip("|").split("|")
        for service, mark in zip(ROLES, marks, strict=True):
            if mark.strip() == "x":
                told[service] |= {
                    one for one in re.findall(r"`([a-z-]+)`", names) if one in POLICIES
                }
    assert told == {service: {*listed} for service, listed in ROLES.items()}
