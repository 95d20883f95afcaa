"""Evaluates the expressions of kubelet settings, by CEL (EC-11).

What may go wrong: an expression that does not compile, or fails for some types, such as a division by zero. The type is
then not used, and its node class is named. The library is loaded with the first expression: most classes have none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from shared.domain.instance_types.expressions import LARGEST, LONGEST, Variables
from shared.errors import InvalidObject

_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\(")
"""Macros over lists; their work could not be bounded, and no setting needs one."""


def expression_fault(text: str) -> str:
    """Why this is no expression for any type; empty for one that can be evaluated."""
    return _compiled(text).fault


def value_of(field: str, text: str, variables: Variables) -> int:
    """The result, without its fraction. Raises InvalidObject that names the field and the type it fails for."""
    value, fault = _evaluated(text, variables)
    if fault:
        raise InvalidObject(f"{fault} ({variables.instance_type})", field=field)
    return value


class _Compiled(NamedTuple):
    program: Any
    fault: str = ""


_OPERATORS = frozenset(
    ("_+_", "_-_", "_*_", "_/_", "_%_", "-_", "!_", "_?_:_", "_&&_", "_||_", "@in")
) | frozenset(f"_{sign}_" for sign in ("<", "<=", ">", ">=", "==", "!="))
_FUNCTIONS = frozenset(
    ("min", "max", "int", "double", "startsWith", "endsWith", "contains", "matches", "size")
)


@lru_cache(1024)
def _compiled(text: str) -> _Compiled:
    import cel

    if len(text) > LONGEST:
        return _Compiled(None, f"is longer than {LONGEST} characters")
    if _LOOP.search(text):
        return _Compiled(None, "macros over lists, such as map, cannot be used here")
    try:
        program = cel.compile(text)
    except ValueError as error:
        shown = str(error).partition(": ")[2] or str(error)
        return _Compiled(None, f"is no CEL expression: {shown.partition(chr(10))[0][:200]}")
    if unknown := sorted(set(program.variables()) - set(Variables._fields)):
        return _Compiled(None, f"does not know {unknown[0]}; use {', '.join(Variables._fields)}")
    if unknown := sorted(set(program.functions()) - _OPERATORS - _FUNCTIONS):
        return _Compiled(None, f"cannot use {unknown[0]}; use {', '.join(sorted(_FUNCTIONS))}")
    return _Compiled(program)


@lru_cache(65536)
def _evaluated(text: str, variables: Variables) -> tuple[int, str]:
    """(result, fault): cached, because each plan evaluates each class for a thousand types."""
    import cel

    compiled = _compiled(text)
    if compiled.fault:
        return 0, compiled.fault
    try:
        found = compiled.program.execute(cel.Context(variables._asdict(), dict(_EXTREMES)))
    except ZeroDivisionError:
        return 0, "divides by zero"
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return 0, f"cannot be evaluated: {str(error).partition('. ')[0][:200]}"
    return _whole(found)


def _whole(found: object) -> tuple[int, str]:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0, "must yield a number"
    if not math.isfinite(found):
        return 0, f"yields {found}, which is no finite number"
    value = int(found)
    if not 0 <= value <= LARGEST:
        return 0, f"yields {value}, which is outside 0 to {LARGEST}"
    return value, ""


def _of_two(choose: Callable[[float, float], float]) -> Callable[[float, float], float]:
    """Of two numbers; of an int and a double the result is a double, as in Karpenter."""

    def chosen(one: float, other: float) -> float:
        for value in (one, other):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError("no such overload: wants two numbers")
        found = choose(one, other)
        return float(found) if isinstance(one, float) or isinstance(other, float) else found

    return chosen


_EXTREMES = {"min": _of_two(min), "max": _of_two(max)}
