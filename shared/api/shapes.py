"""Reads fields of JSON documents that may hold anything: the right type, or an InvalidObject that names the field.

A schema on the server usually refuses wrong types; not every server has our schema, and one odd object must not stop
the reading of the others (F27). ``null`` counts as absent everywhere, as it does for Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.errors import InvalidObject

Json = Mapping[str, Any]
SMALLEST, LARGEST = -(2**31), 2**31 - 1
"""Kubernetes' int32."""


def mapping(value: object, field: str) -> Json:
    """An object; {} when absent."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidObject("must be an object", field=field)
    return value


def entries(value: object, field: str) -> list[Json]:
    """A list of objects; [] when absent."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidObject("must be a list", field=field)
    for index, entry in enumerate(value):
        if not isinstance(entry, Mapping):
            raise InvalidObject("must be an object", field=f"{field}[{index}]")
    return value


def text(value: object, field: str) -> str:
    """Text; "" when absent."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidObject("must be text; put it in quotes", field=field)
    return value


def texts(value: object, field: str) -> dict[str, str]:
    """A map of text to text; {} when absent."""
    return {str(key): text(one, f"{field}[{key}]") for key, one in mapping(value, field).items()}


def text_list(value: object, field: str) -> tuple[str, ...]:
    """A list of text; () when absent."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidObject("must be a list", field=field)
    # A thousand machines name 600 types each: no field is made up for these.
    if set(map(type, value)) <= {str}:
        return tuple(value)
    return tuple(text(one, f"{field}[{index}]") for index, one in enumerate(value))


def whole(value: object, field: str) -> int | None:
    """A whole number of 32 bits; None when absent."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not SMALLEST <= value <= LARGEST:
        raise InvalidObject("must be a whole number of 32 bits", field=field)
    return value
