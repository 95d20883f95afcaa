"""Requirement expressions, taints and tolerations of objects.

The algebra over expressions (intersection, compatibility) is in ``requirements``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"


class Expression(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One entry of ``requirements`` or ``matchExpressions``.

    ``operator`` is In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte (NP-02). ``key`` is the current name of a
    legacy key (SCH-03).
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


class Taint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node taint; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""

    def text(self) -> str:
        """``key=value:effect``, as kubectl prints it."""
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


_EQUAL = ("", "Equal")


class Toleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod's toleration; an empty key with operator Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Kubernetes' rule (``ToleratesTaint`` of core/v1)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in _EQUAL and bool(self.key) and self.value == taint.value


def selects_labels(
    match_labels: Mapping[str, str], expressions: Iterable[Expression], labels: Mapping[str, str]
) -> bool:
    """LabelSelector of apimachinery: NotIn and DoesNotExist hold without the label; an empty one selects all."""
    if any(labels.get(key) != value for key, value in match_labels.items()):
        return False
    return all(holds(expression, labels) for expression in expressions)


def holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    """LabelSelectorRequirement of apimachinery."""
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def first_untolerated(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]
) -> Taint | None:
    """The first taint that no toleration covers. PreferNoSchedule counts too (SCH-27)."""
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None
