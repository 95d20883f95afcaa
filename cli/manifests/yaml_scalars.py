"""Values of unquoted YAML scalars as kubectl reads them: YAML 1.1 without dates and base 60, plus JSON numbers."""

from __future__ import annotations

import re

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {"~": None, "": None}
for _true, _false in (("true", "false"), ("yes", "no"), ("on", "off"), ("y", "n")):
    for _spell in (str.lower, str.capitalize, str.upper):
        _WORDS |= {_spell(_true): True, _spell(_false): False}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"))
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_BASED = re.compile(r"([-+]?)0([xob]?)([0-9a-fA-F_]+)")
_BASES = {"x": 16, "o": 8, "b": 2, "": 8}
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMBER_STARTS = frozenset("+-.0123456789")
NUMBER_LENGTH_LIMIT = 100
"""In characters. A longer scalar is text, so that no huge integer is computed."""


LEAST_EXPONENT = 1e21
"""Go writes floats from here on with an exponent, and smaller whole ones as integers."""


def scalar_value(text: str, tag: str | None, *, plain: bool) -> str | int | float | bool | None:
    """The value of a scalar. ``plain``: written without quotes and without a tag."""
    bare = plain or tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null")
    if not bare:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > NUMBER_LENGTH_LIMIT:
        return text
    return _number(text)


def _number(text: str) -> str | int | float:
    if _WHOLE.fullmatch(text):
        return int(text.replace("_", ""))
    based = _based(text)
    if based is not None:
        return based
    if _FRACTION.fullmatch(text):
        value = float(text)
        # kubectl sends JSON as Go writes it, where 1e1 and 10.0 are 10.
        return int(value) if value.is_integer() and abs(value) < LEAST_EXPONENT else value
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def _based(text: str) -> int | None:
    found = _BASED.fullmatch(text)
    if found is None:
        return None
    sign, base, digits = found.groups()
    try:
        return int(sign + digits.replace("_", ""), _BASES[base])
    except ValueError:
        return None
