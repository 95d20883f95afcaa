"""IAM's rule for one permission on one resource: some statement allows it and none denies it. Pure.

Only the operators of deploy/iam are known. Another operator raises ``ValueError``, because a policy that is not
understood must not allow anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import msgspec

from local.aws.iam.policies import Statement

Context = Mapping[str, tuple[str, ...]]
"""Condition key -> the request's values for it."""
FOR_ALL, FOR_ANY = "ForAllValues:", "ForAnyValue:"


class Permission(msgspec.Struct, frozen=True):
    """One permission that a request needs."""

    action: str
    """The action, such as ``ec2:RunInstances``."""
    resource: str = "*"
    """An ARN, or ``*`` for an action without resource-level permissions."""
    context: dict[str, tuple[str, ...]] = {}


def is_allowed(statements: Iterable[Statement], permission: Permission) -> bool:
    """Whether the statements allow it. An explicit denial wins; without a matching statement the answer is no."""
    applying = [one for one in statements if applies(one, permission)]
    return bool(applying) and all(one.allows for one in applying)


def applies(statement: Statement, permission: Permission) -> bool:
    """Whether the statement covers this action on this resource and all its conditions hold."""
    action = permission.action.lower()
    return (
        any(_like(pattern.lower(), action) for pattern in statement.actions)
        and any(_like(pattern, permission.resource) for pattern in statement.resources)
        and all(
            _holds(operator, accepted, permission.context.get(key, ()))
            for operator, keys in statement.conditions.items()
            for key, accepted in keys.items()
        )
    )


def _holds(operator: str, accepted: tuple[str, ...], values: tuple[str, ...]) -> bool:
    """Whether one condition holds. A key that the request lacks fails, except for ``ForAllValues``."""
    compare = _OPERATORS.get(operator.removeprefix(FOR_ALL).removeprefix(FOR_ANY))
    if compare is None:
        raise ValueError(f"the emulator does not know the condition operator {operator}")
    matches = [any(compare(one, value) for one in accepted) for value in values]
    return all(matches) if operator.startswith(FOR_ALL) else any(matches)


def _like(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression. ``*``: any text, ``?``: any character."""
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(one) or re.escape(one) for one in pattern), re.DOTALL)


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda accepted, value: accepted == value,
    "StringLike": _like,
    "Bool": lambda accepted, value: accepted.lower() == value.lower(),
}
