"""Readers for fields of unchecked JSON documents: each returns the right type; all but ``below`` raise
InvalidObject with the field.

The API server's schema usually refuses wrong types, but not every server has our schema, and one invalid object must
not stop the reading of the others (F27). ``null`` counts as absent everywhere, as it does for Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.errors import InvalidObject

Json = Mapping[str, Any]
SMALLEST, LARGEST = -(2**31), 2**31 - 1
"""Kubernetes' int32."""
TIMESTAMP_EXAMPLE = "such as 2024-01-31T12:00:00Z"
"""What a message about an invalid time ends with."""


def below(raw: Json, name: str) -> Json:
    """The object in a field; {} when it is absent or no object, for callers to whom others report that."""
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


def mapping(value: object, field: str) -> Json:
    """An object; {} when absent."""
    if value is None:
        return {}
    # The fast path: a check against an abstract class takes ten times as long, and a pod has dozens of objects.
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InvalidObject("must be an object", field=field)
    return value


def entries(value: object, field: str) -> list[Json]:
    """A list of objects; [] when absent."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidObject("must be a list", field=field)
    for index, entry in enumerate(value):
        if type(entry) is not dict and not isinstance(entry, Mapping):
            raise InvalidObject("must be an object", field=f"{field}[{index}]")
    return value


def text(value: object, field: str) -> str:
    """A string; "" when absent."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidObject("must be a string; put it in quotes", field=field)
    return value


def texts(value: object, field: str) -> dict[str, str]:
    """A map of strings to strings; {} when absent."""
    return {str(key): text(one, f"{field}[{key}]") for key, one in mapping(value, field).items()}


def text_list(value: object, field: str) -> tuple[str, ...]:
    """A list of strings; () when absent."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidObject("must be a list", field=field)
    # The fast path: a thousand machines list 600 instance types each, and formatting a field name per entry is slow.
    if set(map(type, value)) <= {str}:
        return tuple(value)
    return tuple(text(one, f"{field}[{index}]") for index, one in enumerate(value))


def whole(value: object, field: str) -> int | None:
    """An int32; None when absent."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not SMALLEST <= value <= LARGEST:
        raise InvalidObject(f"must be a whole number from {SMALLEST} to {LARGEST}", field=field)
    return value
