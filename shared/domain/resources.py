"""Amounts of resources as exact integers: cpu in milli-cores, memory and storage in bytes, the rest in units.

Kubernetes' quantities are decimal numbers with binary or decimal suffixes (apimachinery ``resource.Quantity``). They
are parsed with ``Decimal``, never ``float``, so that pods that fill a node exactly still fit (SCH-63).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from shared.errors import InvalidObject

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"

Resources = Mapping[str, int]
"""Resource name -> amount in the unit above. A missing name means zero."""

LARGEST_AMOUNT = 2**62
"""A larger quantity is refused as a typing error, so that sums over a cluster stay within 64 bits."""

LONGEST_KEPT = 40
"""Characters of a quantity whose amount is kept."""

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?P<suffix>(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?)"
)
_FACTORS: dict[str, Decimal] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{s: Decimal(10) ** (3 * (i + 1)) for i, s in enumerate("kMGTPE")},
    **{f"{s}i": Decimal(1024) ** (i + 1) for i, s in enumerate("KMGTPE")},
}


def parse_quantity(text: object, *, field: str) -> Decimal:
    """The exact value of a Kubernetes quantity such as ``250m``, ``1.5Gi``, ``1e3`` or the number 2.

    Raises InvalidObject naming ``field``.
    """
    match = _QUANTITY.fullmatch(str(text)) if isinstance(text, str | int | float) else None
    if match is None or isinstance(text, bool):
        shown = str(text)[:40]
        raise InvalidObject(
            f"{shown!r} is not a quantity; write for example 500m, 2 or 1.5Gi", field=field
        )
    number, suffix = Decimal(match["number"]), match["suffix"]
    if suffix not in _FACTORS:  # an exponent
        return number.scaleb(int(suffix[1:]))
    return number * _FACTORS[suffix]


def parse_amount(resource: str, text: object, *, field: str) -> int:
    """A quantity in ``resource``'s own unit, rounded up as the API server does for requests.

    Raises InvalidObject for an invalid, negative or too large quantity.
    """
    if type(text) is str and len(text) <= LONGEST_KEPT:
        found = _kept_amount(text, resource == CPU)
        if found is not None:
            return found
    value = parse_quantity(text, field=field)
    if value < 0:
        raise InvalidObject("must not be negative", field=field)
    amount = _amount(value, resource == CPU)
    if amount is None:
        raise InvalidObject(
            f"{str(text)[:40]} is larger than any machine; check the unit", field=field
        )
    return amount


@lru_cache(maxsize=8_192)
def _kept_amount(text: str, is_cpu: bool) -> int | None:
    """The amount of a valid quantity, else None. Kept: all pods of a workload ask for the same, at each change."""
    try:
        return _amount(parse_quantity(text, field=""), is_cpu)
    except InvalidObject:
        return None


def _amount(value: Decimal, is_cpu: bool) -> int | None:
    """None for an amount that is negative or larger than any machine."""
    amount = value * 1000 if is_cpu else value
    if not 0 <= amount <= LARGEST_AMOUNT:
        return None
    return int(amount.to_integral_value(rounding=ROUND_CEILING))


def parse_resources(raw: object, *, field: str) -> dict[str, int]:
    """A Kubernetes resource list. ``None`` is the empty list. Raises InvalidObject."""
    if raw is None:
        return {}
    if type(raw) is not dict and not isinstance(raw, Mapping):  # as in shared.api.shapes
        raise InvalidObject("must be a map of resource names to quantities", field=field)
    return {str(k): parse_amount(str(k), v, field=f"{field}.{k}") for k, v in raw.items()}


def add(*parts: Resources) -> dict[str, int]:
    """The sum, name by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def subtract(left: Resources, right: Resources) -> dict[str, int]:
    """``left - right`` over all names; may be negative."""
    return {n: left.get(n, 0) - right.get(n, 0) for n in _names(left, right)}


def at_least(left: Resources, right: Resources) -> dict[str, int]:
    """The larger of both, name by name."""
    return {n: max(left.get(n, 0), right.get(n, 0)) for n in _names(left, right)}


def _names(left: Resources, right: Resources) -> Iterable[str]:
    """All names in the order of both: in a set's, which differs from process to process, a pod's record in the mirror
    would have other bytes after each start of the watcher, and every reader would take the pod for changed.
    """
    return {**left, **right}


def fits(request: Resources, available: Resources) -> bool:
    """SCH-62: whether every requested amount is available; nothing fits if an available amount is negative."""
    if any(amount < 0 for amount in available.values()):
        return False
    return all(amount <= available.get(name, 0) for name, amount in request.items() if amount)


def exceeded(usage: Resources, limits: Resources) -> list[str]:
    """The resources whose ``usage`` is above their limit, sorted."""
    return sorted(name for name, limit in limits.items() if usage.get(name, 0) > limit)


def format_amount(resource: str, amount: int) -> str:
    """The shortest usual text: ``250m``, ``2``, ``256Mi``, ``29``."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        for power, suffix in ((3, "Gi"), (2, "Mi"), (1, "Ki")):
            if amount and amount % 1024**power == 0:
                return f"{amount // 1024**power}{suffix}"
    return str(amount)


def round_amount(resource: str, amount: int) -> str:
    """For people: bytes rounded up to MiB. ``340m``, ``1201Mi``, ``3``."""
    is_bytes = resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-")
    return format_amount(resource, -(-amount // 1024**2) * 1024**2 if is_bytes else amount)


def format_resources(resources: Resources) -> dict[str, str]:
    """Ready for a Kubernetes object: names sorted, amounts as text."""
    return {name: format_amount(name, resources[name]) for name in sorted(resources)}


def sum_of(parts: Iterable[Resources]) -> dict[str, int]:
    """``add`` over an iterable."""
    return add(*parts)
