"""The functions that Kubernetes adds to CEL, for the rules of custom resources and the selectors of devices.

Values of Kubernetes' own CEL types (quantity, version, URL, IP, CIDR) are represented as maps with one reserved key,
because the library passes only JSON-like values to functions. Quantities are stored in their shortest form, so ``==``
compares amounts. Only the functions of a Kubernetes API server exist here, so that a rule which needs others fails here
too. ``find`` and ``findAll`` use Python's ``re``, which differs from RE2 in rare cases.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from cel.stdlib import STDLIB_FUNCTIONS

from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

Function = Callable[..., Any]
Carrier = dict[str, str]
"""A value of a Kubernetes CEL type: ``{"@quantity": "1.5"}``."""

_FROM_LIBRARY = (
    *("charAt", "join", "lowerAscii", "max", "min", "replace", "split", "substring", "sum"),
    *("trim", "upperAscii"),
    *("strings.quote", "sets.contains", "sets.equivalent", "sets.intersects"),
)


def _inside(value: Any, kind: str) -> str:
    if isinstance(value, dict) and kind in value:
        return str(value[kind])
    raise TypeError(f"no such overload: wants {kind.removeprefix('@')}(...)")


def _can(read: Function) -> Function:
    """A function that reports whether ``read`` accepts its argument."""

    def test(value: Any) -> bool:
        try:
            read(value)
        except (ValueError, InvalidObject):
            return False
        return True

    return test


def _quantity(text: Any) -> Carrier:
    return _carried(parse_quantity(text, field="quantity"))


def _carried(amount: Decimal) -> Carrier:
    # Adding zero removes the sign of -0.
    return {"@quantity": str((amount + 0).normalize())}


def _amount(value: Any) -> Decimal:
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return Decimal(_inside(value, "@quantity"))


def _compare(left: Any, right: Any) -> int:
    """Of two quantities, or of two versions."""
    if isinstance(left, dict) and "@semver" in left:
        one, other = _precedence(left), _precedence(right)
        return (one > other) - (one < other)
    return int(_amount(left).compare(_amount(right)))


def _as_integer(value: Any) -> int:
    amount = _amount(value)
    if not _is_integer(value):
        raise ValueError(f"cannot convert {amount} to an integer")
    return int(amount)


def _is_integer(value: Any) -> bool:
    amount = _amount(value)
    return amount == amount.to_integral_value() and abs(amount) < 2**63


def _sign(value: Any) -> int:
    amount = _amount(value)
    return (amount > 0) - (amount < 0)


QUANTITIES: dict[str, Function] = {
    "quantity": _quantity,
    "isQuantity": _can(_quantity),
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_amount(value)),
    "sign": _sign,
    "add": lambda left, right: _carried(_amount(left) + _amount(right)),
    "sub": lambda left, right: _carried(_amount(left) - _amount(right)),
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
}


_VERSION = re.compile(
    r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]{1,64})?"
)


def _semver(text: Any) -> Carrier:
    if not isinstance(text, str) or not _VERSION.fullmatch(text):
        raise ValueError(f"{str(text)[:80]!r} is not a semantic version")
    return {"@semver": text}


def _precedence(value: Any) -> tuple[tuple[int, ...], bool, list[tuple[bool, int, str]]]:
    """The order of semantic versions: a pre-release is less than its release, numbers in it are less than texts."""
    match = _VERSION.fullmatch(_inside(value, "@semver"))
    if match is None:
        raise ValueError("not a semantic version")
    parts = match[4].split(".") if match[4] else []
    shown = [(False, int(p), "") if p.isdecimal() else (True, 0, p) for p in parts]
    return _numbers(match), not parts, shown


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return int(match[1]), int(match[2]), int(match[3])


VERSIONS: dict[str, Function] = {
    "semver": _semver,
    "isSemver": _can(_semver),
    "major": lambda value: _precedence(value)[0][0],
    "minor": lambda value: _precedence(value)[0][1],
    "patch": lambda value: _precedence(value)[0][2],
}


def _url(text: str) -> Carrier:
    parts = urlsplit(text)
    # Reading the port validates it.
    if not text or not (parts.scheme or text.startswith("/")) or (parts.port or 0) < 0:
        raise ValueError(f"{text[:80]!r} is not a URL")
    return {"@url": text}


def _parts(value: Any) -> SplitResult:
    return urlsplit(_inside(value, "@url"))


URLS: dict[str, Function] = {
    "url": _url,
    "isURL": _can(_url),
    "getScheme": lambda value: _parts(value).scheme,
    "getHost": lambda value: _parts(value).netloc.rpartition("@")[2],
    "getHostname": lambda value: _parts(value).hostname or "",
    "getPort": lambda value: str(_parts(value).port or ""),
    "getEscapedPath": lambda value: _parts(value).path,
    "getQuery": lambda value: parse_qs(_parts(value).query, keep_blank_values=True),
}


def _ip(text: str) -> Carrier:
    return {"@ip": str(ipaddress.ip_address(text))}


def _cidr(text: str) -> Carrier:
    if "/" not in text:
        raise ValueError(f"{text[:80]!r} is not a CIDR")
    return {"@cidr": str(ipaddress.ip_interface(text))}


def _contains_ip(cidr: Any, address: Any) -> bool:
    text = address if isinstance(address, str) else _inside(address, "@ip")
    network = ipaddress.ip_interface(_inside(cidr, "@cidr")).network
    return ipaddress.ip_address(text) in network


ADDRESSES: dict[str, Function] = {
    "ip": _ip,
    "isIP": _can(_ip),
    "family": lambda value: ipaddress.ip_address(_inside(value, "@ip")).version,
    "cidr": _cidr,
    "isCIDR": _can(_cidr),
    "prefixLength": lambda value: ipaddress.ip_interface(_inside(value, "@cidr")).network.prefixlen,
    "containsIP": _contains_ip,
}


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _index_of(sequence: Any, value: Any, *offset: int) -> int:
    if isinstance(sequence, list):
        return next((i for i, entry in enumerate(sequence) if entry == value), -1)
    return int(STDLIB_FUNCTIONS["indexOf"](sequence, value, *offset))


def _last_index_of(sequence: Any, value: Any, *offset: int) -> int:
    if isinstance(sequence, list):
        places = [index for index, entry in enumerate(sequence) if entry == value]
        return places[-1] if places else -1
    return int(STDLIB_FUNCTIONS["lastIndexOf"](sequence, value, *offset))


def _is_sorted(entries: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(entries))


_VERB = re.compile(r"%(?:(%)|(\.\d{1,2})?([sdfexXob]))")


def _format(template: str, values: list[Any]) -> str:
    """``"%s of %d".format([a, b])``. Raises ValueError when verbs and values do not match."""
    left = iter(values)

    def shown(verb: re.Match[str]) -> str:
        if verb[1]:
            return "%"
        value = next(left, None)
        if value is None and verb[3] != "s":
            raise ValueError("format: fewer values than verbs")
        return _text(value) if verb[3] == "s" else format(value, f"{verb[2] or ''}{verb[3]}")

    return _VERB.sub(shown, template)


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, list):
        return f"[{', '.join(_text(entry) for entry in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(value[key])}" for key in sorted(value)) + "}"
    return str(value)


TEXTS_AND_LISTS: dict[str, Function] = {
    "find": _find,
    "findAll": _find_all,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "isSorted": _is_sorted,
    "format": _format,
}

_OF_SELECTORS = [
    "charAt",
    "lowerAscii",
    "upperAscii",
    "trim",
    "substring",
    "indexOf",
    "lastIndexOf",
    "min",
    "max",
]

FUNCTIONS: dict[str, Function] = {
    **{name: STDLIB_FUNCTIONS[name] for name in _FROM_LIBRARY},
    **QUANTITIES,
    **VERSIONS,
    **URLS,
    **ADDRESSES,
    **TEXTS_AND_LISTS,
}
"""Functions that rules can call in addition to those of the language."""

SELECTOR_FUNCTIONS: dict[str, Function] = {
    **{name: FUNCTIONS[name] for name in _OF_SELECTORS},
    **QUANTITIES,
    **VERSIONS,
}
"""Those that selectors of devices may call. The scheduler evaluates what any user wrote, so functions are left out that
may make long texts out of short ones, or that match with Python's ``re``."""

_NATIVE = """size contains startsWith endsWith matches string bytes double int uint bool duration timestamp dyn type
getFullYear getMonth getDayOfMonth getDate getDayOfWeek getDayOfYear getHours getMinutes getSeconds getMilliseconds
hasValue value orValue or none of ofNonZeroValue"""
NAMES = frozenset(_NATIVE.split()) | {name.rpartition(".")[2] for name in FUNCTIONS}
"""Every function that a rule can call, without its namespace."""
