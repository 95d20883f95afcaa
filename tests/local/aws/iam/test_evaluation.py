"""IAM's rule, on statements written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from local.aws.iam.evaluation import Permission, is_allowed
from local.aws.iam.policies import Statement

OWNED = {"aws:ResourceTag/owner": ("me",)}


def statement(
    actions: str = "ec2:*", resources: str = "*", allows: bool = True, **conditions: Any
) -> Statement:
    return Statement(allows, (actions,), (resources,), conditions)


def asked(action: str = "ec2:RunInstances", resource: str = "*", **context: Any) -> Permission:
    return Permission(action, resource, context)


def test_nothing_is_allowed_that_no_statement_allows() -> None:
    assert not is_allowed([], asked())
    assert not is_allowed([statement("sqs:*")], asked())


def test_a_denial_wins() -> None:
    assert is_allowed([statement()], asked())
    assert not is_allowed([statement(), statement("ec2:Run*", allows=False)], asked())


@pytest.mark.parametrize(
    ("pattern", "resource", "fits"),
    [
        ("*", "*", True),
        ("arn:aws:ec2:us-west-2::image/*", "*", False),
        ("arn:aws:ec2:us-west-2::image/*", "arn:aws:ec2:us-west-2::image/ami-1", True),
        ("arn:aws:ec2:us-west-2::image/*", "arn:aws:ec2:us-west-2:1:image/ami-1", False),
        ("arn:aws:ec2:*:*:subnet/*", "arn:aws:ec2:us-west-2:1:subnet/s-1", True),
        ("arn:aws:iam::1:role/node", "arn:aws:iam::1:role/node-2", False),
        ("arn:aws:iam::1:role/n?de", "arn:aws:iam::1:role/node", True),
        ("arn.aws", "arn:aws", False),
    ],
)
def test_resources_fit_by_asterisk_and_question_mark_alone(
    pattern: str, resource: str, fits: bool
) -> None:
    assert is_allowed([statement(resources=pattern)], asked(resource=resource)) is fits


@pytest.mark.parametrize(
    ("operator", "accepted", "values", "holds"),
    [
        ("StringEquals", ("me",), ("me",), True),
        ("StringEquals", ("me", "you"), ("you",), True),
        ("StringEquals", ("me",), ("ME",), False),
        ("StringEquals", ("me",), (), False),
        ("StringEquals", ("*",), ("me",), False),
        ("StringLike", ("*",), ("me",), True),
        ("StringLike", ("*",), ("",), True),
        ("StringLike", ("*",), (), False),
        ("Bool", ("false",), ("False",), True),
        ("ForAllValues:StringEquals", ("a", "b"), ("a", "b"), True),
        ("ForAllValues:StringEquals", ("a", "b"), ("a", "c"), False),
        ("ForAllValues:StringEquals", ("a",), (), True),
        ("ForAnyValue:StringEquals", ("a",), ("c", "a"), True),
        ("ForAnyValue:StringEquals", ("a",), (), False),
    ],
)
def test_conditions(
    operator: str, accepted: tuple[str, ...], values: tuple[str, ...], holds: bool
) -> None:
    found = Statement(True, ("*",), ("*",), {operator: {"key": accepted}})
    context = {"key": values} if values else {}
    assert is_allowed([found], Permission("ec2:RunInstances", "*", context)) is holds


def test_all_conditions_must_hold() -> None:
    conditions: dict[str, dict[str, tuple[str, ...]]] = {"StringEquals": {"a": ("1",), "b": ("2",)}}
    found = Statement(True, ("*",), ("*",), conditions)
    assert is_allowed([found], Permission("x:y", "*", {"a": ("1",), "b": ("2",)}))
    assert not is_allowed([found], Permission("x:y", "*", {"a": ("1",)}))


def test_an_operator_that_is_not_known_does_not_pass() -> None:
    found = Statement(True, ("*",), ("*",), {"IpAddress": {"aws:SourceIp": ("10.0.0.0/8",)}})
    with pytest.raises(ValueError, match="IpAddress"):
        is_allowed([found], asked())
