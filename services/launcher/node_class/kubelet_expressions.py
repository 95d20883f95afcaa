"""Whether a class may be used that has CEL expressions in its kubelet settings (EC-11).

They are an alpha of Karpenter behind the gate NodeClassCEL. With the gate off a class that has one is refused: without
its expression the nodes would have other amounts than it asks for. With the gate on each is evaluated for every type
that is known, and the first that fails is named.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.launcher.node_class.status import Part, Problem
from shared.domain.instance_types.expression_checks import (
    expressions_of,
    failing_expression,
    invalid_expressions,
)
from shared.domain.instance_types.types import InstanceType
from shared.domain.pools.nodepools import NodeClass

DISABLED = "KubeletExpressionsDisabled"
INVALID = "KubeletExpressionInvalid"
FAILED = "KubeletExpressionEvalFailed"


def expression_problems(
    node_class: NodeClass, types: Iterable[InstanceType], *, enabled: bool
) -> list[Problem]:
    """``enabled``: the gate. ``types``: all that are known; none yet is no fault of the class."""
    named = expressions_of(node_class)
    if not named:
        return []
    if not enabled:
        return [_problem(DISABLED, _disabled(*one)) for one in named]
    if invalid := invalid_expressions(node_class):
        return [_problem(INVALID, error.message) for error in invalid]
    failing = failing_expression(node_class, types)
    return [_problem(FAILED, failing.message)] if failing else []


def _disabled(field: str, text: str) -> str:
    return (
        f"{field}: {text[:60]!r} is no amount; as a CEL expression it needs the launcher's setting "
        "AWS_FEATURE_GATES=NodeClassCEL=true"
    )


def _problem(reason: str, message: str) -> Problem:
    return Problem(Part.VALIDATION, reason, message)
