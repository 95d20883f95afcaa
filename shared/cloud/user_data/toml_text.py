"""Writes TOML: every value that ``tomllib`` reads, so that merging keeps all of the user's settings.

What may go wrong: a value of any other type raises ``TypeError``, tables nested beyond Python's stack
``RecursionError``, an integer of thousands of digits ``ValueError``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\]')


def to_toml(table: Mapping[str, Any]) -> str:
    """The document: first the plain keys of each table, then its tables, in the order of the mapping."""
    lines: list[str] = []
    _write(lines, "", table)
    return "".join(f"{line}\n" for line in lines)


def _write(lines: list[str], path: str, table: Mapping[str, Any]) -> None:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    plain = {key: value for key, value in table.items() if key not in tables}
    if path and (plain or not tables):
        lines.append(f"[{path}]")
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in tables.items():
        _write(lines, f"{path}.{_key(key)}" if path else _key(key), value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf, -inf and nan are valid TOML
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return _collection(value)


def _collection(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _string(text: str) -> str:
    escaped = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f'"{escaped}"'
