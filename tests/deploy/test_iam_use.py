"""Policies and code agree: each service may make every call that its code makes, and no action is allowed for nothing.

The calls are read from the source: the operations of each method of ``shared/cloud``, and the methods that a service
names.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from shared.cloud.client.models import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
IAM = ROOT / "deploy" / "iam"
ROLES: dict[str, list[str]] = json.loads((IAM / "roles.json").read_text())
CLASSES = {
    "ec2": "Ec2", "_ec2": "Ec2", "launch_templates": "LaunchTemplates", "instance_statuses": "InstanceStatuses",
    "dry_runs": "DryRuns", "runs": "DryRuns", "sqs": "Sqs", "ssm": "Ssm", "iam": "Iam", "eks": "Eks",
    "events": "Events", "pricing": "Pricing", "autoscaling": "AutoScaling", "zonal_shift": "ZonalShift",
}  # fmt: skip
"""Attribute of ``Cloud``, or what code calls it -> its class."""
IMPLIED = {
    "ec2:CreateTags": "what CreateFleet, CreateLaunchTemplate and RunInstances tag while they make it",
    "ec2:RunInstances": "CreateFleet starts instances with it",
    "iam:PassRole": "of the node role, with an instance profile",
    "iam:TagInstanceProfile": "an instance profile that is made with tags",
}
"""Permission -> what needs it, though no call has its name."""
BATCHERS = {"_terminations": "_terminate", "_descriptions": "_describe"}
"""Attribute that collects calls -> the method that makes them."""
BATCHED = {
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
}
ACTIONS = {
    re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation).lower(): f"{service}:{operation}"
    for service, operations in OPERATIONS.items()
    for operation in sorted(operations)
}


def allowed(policies: list[str]) -> set[str]:
    documents = (json.loads((IAM / "policies" / f"{name}.json").read_text()) for name in policies)
    return {a for one in documents for statement in one["Statement"] for a in statement["Action"]}


@cache
def methods() -> dict[str, dict[str, frozenset[str]]]:
    """Class of ``shared/cloud`` -> method -> permissions, through all that it calls of its own and of its parts."""
    found: dict[str, dict[str, set[str]]] = {}
    for path in sorted((ROOT / "shared" / "cloud").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name] = {
                    one.name: set(_said(one)) for one in node.body if _is_method(one)
                }
    everything = {name: said for parts in found.values() for name, said in parts.items()}
    return {
        kind: {name: frozenset(_reached(name, parts, everything)) for name in parts}
        for kind, parts in found.items()
    }


def _is_method(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _said(node: ast.AST) -> Iterator[str]:
    """Operations by their names in snake case, and names of other methods."""
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and one.value in ACTIONS:
            yield str(one.value)
        elif isinstance(one, ast.Attribute):
            yield one.attr


def _reached(name: str, own: dict[str, set[str]], everything: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [name]
    permissions = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        for said in own.get(one) or everything.get(one, set()):
            if said in ACTIONS:
                permissions.add(BATCHED.get(ACTIONS[said], ACTIONS[said]))
            elif (
                said in own or said.startswith("_") or said in ("described", "listed", "terminated")
            ):
                waiting.append(BATCHERS.get(said, said))
    return permissions


def calls_of(service: str) -> set[str]:
    """Permissions for what the code of a service names."""
    text = "\n".join(path.read_text() for path in (ROOT / "services" / service).rglob("*.py"))
    found = {"ec2:DescribeInstanceTypes"} if "open_cloud(" in text else set()
    for attribute, method in re.findall(r"\b(\w+)\.(?=(\w+))", text):
        if attribute in CLASSES:
            found |= methods()[CLASSES[attribute]].get(method, frozenset())
    return found


def test_the_calls_are_found() -> None:
    """What everybody knows of the services, so that the reading of the source is worth something."""
    assert {
        "ec2:CreateFleet",
        "ec2:DescribeInstances",
        "ssm:GetParameter",
        "eks:DescribeCluster",
    } <= calls_of("launcher")
    assert {"ec2:TerminateInstances", "ec2:DescribeInstances"} <= calls_of("terminator")
    assert {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
    } <= calls_of("interruption")
    assert "ec2:TerminateInstances" not in calls_of("launcher")
    assert "ec2:CreateFleet" not in calls_of("terminator")
    assert calls_of("watcher") == calls_of("scheduler") == set()


@pytest.mark.parametrize("service", sorted({*ROLES} - {"check"}))
def test_a_service_may_make_every_call_of_its_code(service: str) -> None:
    missing = calls_of(service) - allowed(ROLES[service])
    assert not missing


def test_no_action_is_allowed_that_no_code_needs() -> None:
    """A permission that nobody uses is only good for an attacker."""
    everything = allowed(sorted({name for names in ROLES.values() for name in names}))
    used = {BATCHED.get(action, action) for action in ACTIONS.values()}
    assert everything - used <= {*IMPLIED}
    assert {*IMPLIED} <= everything
