"""Requirements on labels of machines, as pools and machines of both generations write them (P-16, NP-02, NP-03)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from shared.api.core.label_syntax import is_label_value, is_qualified_name
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.label_rules import KEPT_SUBDOMAIN_PATTERN, in_kept_subdomain
from shared.domain import labels as keys
from shared.domain.expressions import Expression

MOST_VALUES = 1000
Value = Annotated[str, Field(max_length=63)]
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
                yield ("values", index), f"{value[:40]!r} is not a label value"


def is_bound(value: object) -> bool:
    """A non-negative whole number of 64 bits, as text."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        return False
    return len(value) < 20 and int(value) <= LARGEST_BOUND


def _check_key(raw: Json) -> Iterable[tuple[Path, str]]:
    key = raw.get("key")
    if isinstance(key, str) and not is_qualified_name(key):
        yield ("key",), f"{key[:80]!r} is not a qualified name such as example.com/team"


def _check_min_values(raw: Json) -> Iterable[tuple[Path, str]]:
    least, values = raw.get("minValues"), raw.get("values")
    if raw.get("operator") != "In" or not isinstance(least, int) or not isinstance(values, list):
        return
    if len(values) < least:
        yield ("minValues",), f"asks for {least} values, but only {len(values)} are listed"


class SelectorRequirement(ApiModel):
    """What a label of the machine must, or must not, be (P-05)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "operator In needs values; Gt and Lt need exactly one whole number; Exists and DoesNotExist need none",
            "self.operator == 'In' ? has(self.values) && size(self.values) > 0 : "
            "(self.operator in ['Gt', 'Lt'] ? has(self.values) && size(self.values) == 1 && "
            "self.values[0].matches('^[0-9]{1,19}$') : "
            "(self.operator == 'NotIn' || !has(self.values) || size(self.values) == 0))",
            _check_values,
        ),
        Rule("key must be a qualified name", check=_check_key),
    )

    key: Annotated[str, Field(max_length=316)]
    """The label's key, such as node.kubernetes.io/instance-type."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label's value relates to the values listed."""
    values: Annotated[list[Value], Field(max_length=MOST_VALUES)] = []
    """Values to compare with: at least one for In, exactly one whole number for Gt and Lt, none for Exists."""


class MinValuesRequirement(ApiModel):
    """What a label of the machine must be, and among how many of its values the choice must stay open (NP-02)."""

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
        Rule("key must be a qualified name", check=_check_key),
    )

    key: Annotated[str, Field(max_length=316)]
    """The label's key, such as node.kubernetes.io/instance-type."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
    """How the label's value relates to the values listed."""
    values: Annotated[list[Value], Field(max_length=MOST_VALUES)] = []
    """Values to compare with: at least one for In, exactly one whole number for the comparisons, none for Exists."""
    min_values: Annotated[int, Field(ge=1, le=50)] | None = None
    """How many different values the remaining instance types must offer, so that EC2 has a choice."""


def _check_domain(raw: Json) -> Iterable[tuple[Path, str]]:
    key = raw.get("key")
    if isinstance(key, str) and (cause := in_kept_subdomain(keys.normalise(key))):
        yield ("key",), cause


class V1Requirement(MinValuesRequirement):
    """What a label of the machine must be, and among how many of its values the choice must stay open (NP-02)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *MinValuesRequirement.RULES,
        Rule(
            "key must not be in a subdomain that the autoscaler keeps",
            f"!self.key.matches('{KEPT_SUBDOMAIN_PATTERN}')",
            _check_domain,
        ),
    )


def expressions_of(
    written: Iterable[SelectorRequirement | MinValuesRequirement],
) -> tuple[Expression, ...]:
    """In the domain's words; legacy keys in today's spelling (SCH-03)."""
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
