"""CEL selectors of device classes and requests.

A selector sees one device: ``device.driver``, ``device.attributes["domain"].name``, ``device.capacity["domain"].name``
and ``device.allowMultipleAllocations``. As in Kubernetes, a domain that the device lacks is an empty map, and a name
that it lacks is an error, unless the selector asks with ``has``.

What may go wrong: a selector that fails, or whose work cannot be bounded, selects nothing; its fault is kept for the
verdict of its pods. The library is loaded with the first selector, since most clusters have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from shared.domain.devices.records import Device
from shared.errors import InvalidObject

LONGEST = 10 * 1024
"""Kubernetes' limit, in characters."""
MOST_LOOPS = 4
"""Macros that run over a list or a map; nested ones multiply."""
LONGEST_LIST = 100
"""Commas in a selector with such macros: what they run over is bounded by the text and by the device."""

_REFUSED = ("bind", "optMap", "optFlatMap", "find", "findAll", "replace", "format", "join", "split")
"""Macros that the library does not have, and functions that are left out (see ``SELECTOR_FUNCTIONS``)."""
_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\(")
_DOMAIN = re.compile(r"""\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]""")
_ENCODER = msgspec.json.Encoder(order="deterministic")


class Verdict(NamedTuple):
    """Whether a selector selects a device. ``fault``: why it could not be evaluated."""

    selects: bool
    fault: str = ""


def selects(expressions: Iterable[str], driver: str, device: Device) -> Verdict:
    """Are all of these true of the device? With ``fault``: of the first one that could not be evaluated."""
    seen = identity(driver, device)
    for expression in expressions:
        verdict = _verdict(expression, seen)
        if not verdict.selects:
            return verdict
    return Verdict(True)


def identity(driver: str, device: Device) -> bytes:
    """What a selector can see of a device: equal for devices that no selector tells apart."""
    capacity = {name: str(amount) for name, amount in device.capacity.items()}
    parts = (driver, device.attributes, device.versions, capacity, device.shared)
    return _ENCODER.encode(parts)


def expression_fault(expression: str) -> str:
    """Why no device can be selected by this; empty for an expression that can be evaluated."""
    return _compiled(expression).fault


class _Compiled(NamedTuple):
    program: Any
    functions: Mapping[str, Any]
    domains: tuple[str, ...]
    fault: str = ""


@lru_cache(1024)
def _compiled(expression: str) -> _Compiled:
    """Compiled once: a plan evaluates each selector for each kind of device."""
    import cel

    from shared.domain.devices.cel_functions import SELECTOR_FUNCTIONS

    if fault := _too_costly(expression):
        return _Compiled(None, {}, (), fault)
    try:
        program = cel.compile(expression)
    except ValueError as error:
        text = str(error).partition(": ")[2] or str(error)
        return _Compiled(None, {}, (), f"it is no CEL expression: {_short(text)}")
    if refused := sorted(name for name in _REFUSED if f".{name}(" in expression):
        return _Compiled(None, {}, (), f"{refused[0]} cannot be used here")
    called = set(program.functions())
    functions = {
        name: do for name, do in SELECTOR_FUNCTIONS.items() if name.rpartition(".")[2] in called
    }
    domains = tuple(sorted({one or other for one, other in _DOMAIN.findall(expression)}))
    return _Compiled(program, functions, domains)


def _too_costly(expression: str) -> str:
    """The bound on work: the library has none of its own."""
    if len(expression) > LONGEST:
        return f"it is longer than {LONGEST} characters"
    loops = len(_LOOP.findall(expression))
    if loops > MOST_LOOPS or (loops > 1 and expression.count(",") > LONGEST_LIST):
        return (
            f"it may cost too much: use at most {MOST_LOOPS} macros such as exists, on short lists"
        )
    return ""


@lru_cache(65536)
def _verdict(expression: str, seen: bytes) -> Verdict:
    """Cached by what the selector sees: a hundred nodes with eight equal GPUs each are one evaluation."""
    import cel

    compiled = _compiled(expression)
    if compiled.fault:
        return Verdict(False, compiled.fault)
    variables = {"device": _variables(seen, compiled.domains)}
    try:
        found = compiled.program.execute(cel.Context(variables, dict(compiled.functions)))
    except KeyError as error:
        return Verdict(False, f"no such key: {_short(str(error.args[0]))}")
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, InvalidObject) as e:
        return Verdict(False, _short(str(e)))
    if not isinstance(found, bool):
        return Verdict(False, "it must be true or false")
    return Verdict(found)


def _variables(seen: bytes, domains: Iterable[str]) -> dict[str, Any]:
    from shared.domain.devices.cel_functions import QUANTITIES

    driver, attributes, versions, capacity, shared = msgspec.json.decode(seen)
    by_domain: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    amounts: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    values = {**attributes, **{name: {"@semver": text} for name, text in versions.items()}}
    for name, value in values.items():
        domain, _, short = name.rpartition("/")
        by_domain.setdefault(domain, {})[short] = value
    for name, amount in capacity.items():
        domain, _, short = name.rpartition("/")
        amounts.setdefault(domain, {})[short] = QUANTITIES["quantity"](amount)
    return {
        "driver": driver,
        "attributes": by_domain,
        "capacity": amounts,
        "allowMultipleAllocations": shared,
    }


def _short(text: str) -> str:
    return text.partition(". Check ")[0][:200]
