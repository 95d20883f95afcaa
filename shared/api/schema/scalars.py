"""Scalar types that many fields share: quantities, durations, bounded strings, IP addresses."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from shared.domain.resources import LARGEST_AMOUNT, parse_quantity
from shared.errors import InvalidObject

LONGEST_TEXT = 64


def worded(
    pattern: str, example: str, longest: int | None = LONGEST_TEXT
) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations for a ``str``: ``Annotated[str, *worded(r"^[0-9]+s$", "5s")]``.

    ``longest`` is in characters; None where the pattern has the bound.
    """
    form = re.compile(pattern)

    def check(text: str) -> str:
        if form.fullmatch(text) is None or (longest is not None and len(text) > longest):
            raise ValueError(f"{text[:40]!r} has the wrong format; write for example {example}")
        return text

    bound = {} if longest is None else {"maxLength": longest}
    schema = {"type": "string", "pattern": pattern, **bound}
    return AfterValidator(check), WithJsonSchema(schema)


QUANTITY_PATTERN = (
    r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
DURATION_PATTERN = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER_PATTERN = r"^(([0-9]+(s|m|h))+|Never)$"
NEVER = "Never"
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}
LONGEST_SECONDS = 100 * 365 * 24 * 3600
"""Seconds; the largest value of a duration (100 years), so that large numbers cannot overflow."""


def quantity(value: Any) -> int | str:
    """The validated amount of a resource, as written. Raises ValueError with the fault and its fix."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1e3 in YAML: the API server reads it as 1000
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be a quantity such as 500m, 2 or 1.5Gi; put fractions in quotes")
    try:
        amount = parse_quantity(value, field="")
    except InvalidObject as error:
        raise ValueError(error.message.removeprefix(": ")) from error
    if not 0 <= amount <= LARGEST_AMOUNT:
        raise ValueError("must not be negative" if amount < 0 else "is too large")
    return value


Quantity = Annotated[
    Any,
    PlainValidator(quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "minimum": 0,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A Kubernetes quantity of zero or more, as written: int or str."""

ResourceList = dict[str, Quantity]

Duration = Annotated[str, *worded(DURATION_PATTERN, "30s or 1h30m")]
"""A Go duration of whole hours, minutes and seconds, such as ``1h30m``."""
DurationOrNever = Annotated[str, *worded(DURATION_OR_NEVER_PATTERN, "30s, 720h or Never")]
Text = Annotated[str, Field(max_length=1024)]


def duration_seconds(text: str | None) -> float | None:
    """Seconds of a Duration or DurationOrNever that matches its pattern; None for ``Never`` and for None."""
    if text is None or text == NEVER:
        return None
    parts = re.findall(r"([0-9]+)(s|m|h)", text)
    return float(
        sum(min(int(number), LONGEST_SECONDS) * _UNIT_SECONDS[unit] for number, unit in parts)
    )


def duration_text(seconds: float | None) -> str:
    """The inverse of ``duration_seconds``: ``2592000s`` (MAP-04), or ``Never`` for None."""
    return NEVER if seconds is None else f"{int(seconds)}s"


LONGEST_ADDRESS = 45
"""Characters of the longest way to write an IPv6 address."""
EXAMPLE_ADDRESS = "10.100.0.10"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?:{_OCTET}[.]){{3}}{_OCTET}"
_GROUP = "[0-9a-fA-F]{1,4}"
_WHOLE_IPV6 = f"(?:{_GROUP}:){{6}}(?:{_GROUP}:{_GROUP}|{_IPV4})"
_BEFORE = f"(?:{_GROUP}(?::{_GROUP}){{0,6}})?"
_AFTER = f"(?:(?:{_GROUP}:){{0,6}}(?:{_GROUP}|{_IPV4}))?"
_SHORT_IPV6 = f"{_BEFORE}::{_AFTER}"
_MOST_COLONS = "(?:[^:]*:){2,7}[^:]*"
"""Of an address with groups on both sides of ``::``, which are at most seven."""


def _address(text: str) -> str:
    # A scope ("fe80::1%eth0") may hold any character, and this text is written into a shell script.
    if "%" in text:
        raise ValueError(f"{text[:40]!r} has a scope; remove the scope, from % on")
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not an IP address such as {EXAMPLE_ADDRESS}") from None
    return text


IpAddress = Annotated[str, Field(max_length=LONGEST_ADDRESS), AfterValidator(_address)]


def cel_is_address(text: str) -> str:
    """``text`` is an IP address without a scope, as a CEL condition; CEL has ``isIP`` only since Kubernetes 1.31.

    An IPv4 address at the end of an IPv6 address counts as one group here, where it is two.
    """
    return (
        f"({text}.matches('^(?:{_IPV4}|{_WHOLE_IPV6})$') || "
        f"({text}.matches('^{_SHORT_IPV6}$') && ({text}.startsWith('::') || {text}.endsWith('::') || "
        f"{text}.matches('^{_MOST_COLONS}$'))))"
    )
