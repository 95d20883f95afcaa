"""Requirements on labels, as pools and machines of both generations have them (P-16, NP-02, NP-03)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from shared.api.core.label_syntax import (
    LABEL_VALUE_FORM,
    LABEL_VALUE_PATTERN,
    cel_is_qualified_name,
    is_label_value,
    is_qualified_name,
)
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.label_rules import KEPT_SUBDOMAIN_PATTERN, in_kept_subdomain
from shared.domain import labels as keys
from shared.domain.expressions import Expression

MOST_VALUES = 1000
# A pattern for the API server alone: reading names the fault in words, and for Gt and Lt as that of a number.
Value = Annotated[str, Field(max_length=63, json_schema_extra={"pattern": LABEL_VALUE_PATTERN})]
BOUNDS = ("Gt", "Lt", "Gte", "Lte")
LARGEST_BOUND = 2**63 - 1


def _check_values(raw: Json) -> Iterable[tuple[Path, str]]:
    operator, values = raw.get("operator"), raw.get("values")
    listed = values if isinstance(values, list) else []
    if operator == "In" and not listed:
        yield ("values",), "operator In needs at least one value"
    elif operator in ("Exists", "DoesNotExist") and listed:
        yield ("values",), f"operator {operator} takes no values"
    elif operator in BOUNDS and not (len(listed) == 1 and is_bound(listed[0])):
        yield (
            ("values",),
            f'operator {operator} needs exactly one whole number in quotes, such as "4"',
        )
    elif operator in ("In", "NotIn"):
        for index, value in enumerate(listed):
            if isinstance(value, str) and not is_label_value(value):
                yield ("values", index), f"{value[:40]!r} is not a label value: {LABEL_VALUE_FORM}"


def is_bound(value: object) -> bool:
    """Whether the value is a string of a whole number from 0 to 2**63 - 1."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        return False
    return len(value) < 20 and int(value) <= LARGEST_BOUND


def _check_key(raw: Json) -> Iterable[tuple[Path, str]]:
    key = raw.get("key")
    if isinstance(key, str) and not is_qualified_name(key):
        yield ("key",), f"{key[:80]!r} is not a qualified name such as example.com/team"


_KEY_RULE = Rule(
    "key must be a qualified name such as example.com/team",
    cel_is_qualified_name("self.key"),
    _check_key,
)


def _check_min_values(raw: Json) -> Iterable[tuple[Path, str]]:
    least, values = raw.get("minValues"), raw.get("values")
    if raw.get("operator") != "In" or not isinstance(least, int) or not isinstance(values, list):
        return
    if len(values) < least:
        yield (
            ("minValues",),
            f"is {least}, but only {len(values)} values are listed; lower it or list more values",
        )


class SelectorRequirement(ApiModel):
    """A requirement on a label of the machine (P-05)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "operator In needs values; Gt and Lt need exactly one whole number; Exists and DoesNotExist need none",
            "self.operator == 'In' ? has(self.values) && size(self.values) > 0 : "
            "(self.operator in ['Gt', 'Lt'] ? has(self.values) && size(self.values) == 1 && "
            "self.values[0].matches('^[0-9]{1,19}$') : "
            "(self.operator == 'NotIn' || !has(self.values) || size(self.values) == 0))",
            _check_values,
        ),
        _KEY_RULE,
    )

    key: Annotated[str, Field(max_length=316)]
    """The label's key, such as node.kubernetes.io/instance-type."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label's value is compared with the values."""
    values: Annotated[list[Value], Field(max_length=MOST_VALUES)] = []
    """Values to compare with: at least one for In, exactly one whole number for Gt and Lt, none for Exists and
    DoesNotExist."""


class MinValuesRequirement(ApiModel):
    """A requirement on a label of the machine, optionally with a minimum number of values to choose from (NP-02)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "operator In needs values; Gt, Lt, Gte and Lte need exactly one whole number; "
            "Exists and DoesNotExist need none",
            "self.operator == 'In' ? has(self.values) && size(self.values) > 0 : "
            "(self.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? has(self.values) && size(self.values) == 1 && "
            "self.values[0].matches('^[0-9]{1,19}$') : "
            "(self.operator == 'NotIn' || !has(self.values) || size(self.values) == 0))",
            _check_values,
        ),
        Rule(
            "operator In with minValues needs at least that many values",
            "self.operator != 'In' || !has(self.minValues) || "
            "(has(self.values) && size(self.values) >= self.minValues)",
            _check_min_values,
        ),
        _KEY_RULE,
    )

    key: Annotated[str, Field(max_length=316)]
    """The label's key, such as node.kubernetes.io/instance-type."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
    """How the label's value is compared with the values."""
    values: Annotated[list[Value], Field(max_length=MOST_VALUES)] = []
    """Values to compare with: at least one for In, exactly one whole number for Gt, Lt, Gte and Lte, none for Exists
    and DoesNotExist."""
    min_values: Annotated[int, Field(ge=1, le=50)] | None = None
    """Minimum number of different values among the instance types that remain, so that EC2 has a choice."""


def _check_domain(raw: Json) -> Iterable[tuple[Path, str]]:
    key = raw.get("key")
    if isinstance(key, str) and (cause := in_kept_subdomain(keys.normalise(key))):
        yield ("key",), cause


class V1Requirement(MinValuesRequirement):
    """A requirement on a label of the machine, optionally with a minimum number of values to choose from (NP-02)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *MinValuesRequirement.RULES,
        Rule(
            "key must not be in a subdomain that the autoscaler reserves",
            f"!self.key.matches('{KEPT_SUBDOMAIN_PATTERN}')",
            _check_domain,
        ),
    )


class ImageRequirement(ApiModel):
    """A requirement on a label of the nodes that an image suits. Only the controllers write it, so it has no rules."""

    # Over all images and requirements of a status, rules would be above the cost that API servers allow.
    key: str
    """The label's key."""
    operator: str
    """How the label's value is compared with the values."""
    values: list[str] | None = None
    """Values to compare with."""


def expressions_of(
    written: Iterable[SelectorRequirement | MinValuesRequirement],
) -> tuple[Expression, ...]:
    """The requirements as domain records, with legacy keys replaced by their current names (SCH-03)."""
    return tuple(
        Expression(
            keys.normalise(one.key),
            one.operator,
            tuple(one.values),
            one.min_values if isinstance(one, MinValuesRequirement) else None,
        )
        for one in written
    )


def requirement_objects(expressions: Iterable[Expression]) -> list[dict[str, object]]:
    """The inverse of ``expressions_of``."""
    return [
        {
            "key": one.key,
            "operator": one.operator,
            **({"values": list(one.values)} if one.values else {}),
            **({"minValues": one.min_values} if one.min_values is not None else {}),
        }
        for one in expressions
    ]
