"""Requirements and label selectors of Kubernetes -> domain expressions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from shared.api.core.label_syntax import LABEL_VALUE_FORM, is_label_value
from shared.api.shapes import mapping, text, text_list, texts, whole
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.errors import InvalidObject

SELECTOR_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
"""Operators of label selectors, which compare strings only."""
OPERATORS = SELECTOR_OPERATORS | {"Gt", "Lt", "Gte", "Lte"}
KNOWN_LISTS = 64
"""Size of the cache of checked value lists."""
KNOWN_EXPRESSIONS = 2_048
"""Size of the cache of checked expressions, of those with at most ``LONGEST_KEPT`` values."""
LONGEST_KEPT = 32


def parse_expressions(
    raw: object, *, field: str, operators: frozenset[str] = OPERATORS
) -> tuple[Expression, ...]:
    """A list of ``{key, operator, values}``. Raises InvalidObject naming the entry and what is allowed."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise InvalidObject("must be a list of requirements", field=field)
    return tuple(parse_expression(e, f"{field}[{i}]", operators) for i, e in enumerate(raw))


def parse_expression(raw: object, field: str, operators: frozenset[str] = OPERATORS) -> Expression:
    """One ``{key, operator, values}``. Raises InvalidObject naming what is wrong."""
    if (type(raw) is not dict and not isinstance(raw, Mapping)) or not raw.get("key"):
        raise InvalidObject("needs a key", field=f"{field}.key")
    key, operator, minimum = raw["key"], raw.get("operator"), raw.get("minValues")
    values = text_list(raw.get("values"), f"{field}.values")
    if len(values) <= LONGEST_KEPT and _is_usual(key, operator, minimum):
        found = _kept(key, operator, values, minimum, operators)
        if found is not None:
            return found
    return _checked(key, operator, values, minimum, field, operators)


def _is_usual(key: object, operator: object, minimum: object) -> bool:
    """Whether these can be looked up; True would be found as the number 1."""
    return type(key) is str and type(operator) is str and (minimum is None or type(minimum) is int)


@lru_cache(maxsize=KNOWN_EXPRESSIONS)
def _kept(
    key: str,
    operator: str,
    values: tuple[str, ...],
    minimum: int | None,
    operators: frozenset[str],
) -> Expression | None:
    """A valid expression, else None. Kept: a list of machines says the same few again and again."""
    try:
        return _checked(key, operator, values, minimum, "", operators)
    except InvalidObject:
        return None


def _checked(
    key: object,
    operator: object,
    values: tuple[str, ...],
    minimum: object,
    field: str,
    operators: frozenset[str],
) -> Expression:
    if not isinstance(operator, str) or operator not in operators:
        raise InvalidObject(
            f"unknown operator {str(operator)[:40]!r}; use one of {', '.join(sorted(operators))}",
            field=f"{field}.operator",
        )
    if operator == "In" and not values:
        raise InvalidObject("operator In needs at least one value", field=f"{field}.values")
    if operator == "In":
        values = _label_values(values)
        if not values:
            raise InvalidObject(
                f"each value must be a label value: {LABEL_VALUE_FORM}", field=f"{field}.values"
            )
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidObject(f"operator {operator} takes no values", field=f"{field}.values")
    if operator in ("Gt", "Lt", "Gte", "Lte") and not (
        len(values) == 1 and values[0].isascii() and values[0].isdigit()
    ):
        raise InvalidObject(
            f"operator {operator} needs exactly one whole number, zero or more",
            field=f"{field}.values",
        )
    least = whole(minimum, f"{field}.minValues")
    return Expression(keys.normalise(text(key, f"{field}.key")), operator, values, least)


@lru_cache(maxsize=KNOWN_LISTS)
def _label_values(values: tuple[str, ...]) -> tuple[str, ...]:
    """``values``, or () when one of them is not a label value. Cached, because the machines of one plan share one list
    of 600 instance types."""
    return values if all(map(is_label_value, values)) else ()


def read_selector(raw: object, field: str) -> tuple[dict[str, str], tuple[Expression, ...]]:
    """``matchLabels`` and ``matchExpressions`` of a label selector. Raises InvalidObject naming the field."""
    selector = mapping(raw, field)
    return texts(selector.get("matchLabels"), f"{field}.matchLabels"), parse_expressions(
        selector.get("matchExpressions"),
        field=f"{field}.matchExpressions",
        operators=SELECTOR_OPERATORS,
    )


def own_values(
    term: Mapping[str, Any], labels: Mapping[str, str], field: str
) -> tuple[Expression, ...]:
    """What ``matchLabelKeys`` and ``mismatchLabelKeys`` of an affinity term add to its selector: the pod's own values.

    The API server writes them into the selector of each pod it creates; pods of files have none yet. A key that the
    pod does not have adds nothing.
    """
    listed = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
    return tuple(
        Expression(key, operator, (labels[key],))
        for name, operator in listed
        for key in text_list(term.get(name), f"{field}.{name}")
        if key in labels
    )
