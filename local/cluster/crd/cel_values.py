"""JSON values in the form that rules of custom resources read: property names escaped for CEL, dates and numbers typed.

The schema decides: map keys are not changed, properties are escaped (``a-b`` is ``a__dash__b``). Text that does not
have its format remains text; the schema's validation reports it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cel

Schema = dict[str, Any]
FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
"""Exceptions of the library for an expression without a value."""

_STATEMENTS = {"break", "continue", "else", "for", "function", "if", "let", "loop", "return"}
_KEYWORDS = {"true", "false", "null", "in", "as", "const", "import", "package", "namespace"}
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


@lru_cache(maxsize=4096)
def escaped(name: str) -> str:
    """The name of a property in rules: ``a-b`` is ``a__dash__b``, ``namespace`` is ``__namespace__``."""
    if name in _KEYWORDS | _STATEMENTS:
        return f"__{name}__"
    for special, word in _ESCAPES:
        name = name.replace(special, word)
    return name


def cel_value(value: Any, schema: Schema) -> Any:
    """``value`` for rules: nulls are absent, property names escaped, numbers and dates have CEL's types."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        below = additional if isinstance(additional, dict) else {}
        return {
            escaped(name) if name in properties else name: cel_value(
                part, properties.get(name, below)
            )
            for name, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        return [cel_value(entry, schema.get("items") or {}) for entry in value]
    return _scalar(value, schema)


def _scalar(value: Any, schema: Schema) -> Any:
    if isinstance(value, str):
        conversion = _CONVERSIONS.get(schema.get("format") or "")
        return _converted(conversion, value) if conversion else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        kind = schema.get("type")
        return float(value) if kind == "number" else int(value) if kind == "integer" else value
    return value


_CONVERSIONS = {
    "duration": cel.compile("duration(text)"),
    "date-time": cel.compile("timestamp(text)"),
    "date": cel.compile("timestamp(text + 'T00:00:00Z')"),
    "byte": cel.compile("bytes(text)"),
}


def _converted(conversion: cel.Program, text: str) -> Any:
    try:
        return conversion.execute({"text": text})
    except FAILURES:
        return text
