"""Fields of Kubernetes' own kinds that do not exist, by the table that the embedded API server decodes with."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from local.cluster.api.protobuf.decoding import TABLE_FILE


@cache
def _table() -> tuple[dict[str, str], dict[str, dict[str, tuple[str, str]]]]:
    """Message by "apiVersion kind", and of each message (type, how often) by field."""
    table = json.loads(TABLE_FILE.read_text())
    messages = {
        name: {field: (kind, often) for field, kind, often in fields.values()}
        for name, fields in table["messages"].items()
    }
    return table["kinds"], messages


def unknown_fields(document: dict[str, Any]) -> list[str]:
    """One line for each field that its kind does not have; nothing for a kind that is not Kubernetes' own."""
    kinds, _ = _table()
    message = kinds.get(f"{document['apiVersion']} {document['kind']}")
    body = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    return _unknown(message, body, "") if message else []


INLINED = ("volumeSource", "persistentVolumeSource")
"""Messages whose fields stand beside the others in JSON."""


def _fields(message: str) -> dict[str, tuple[str, str]] | None:
    messages = _table()[1]
    own = messages.get(message)
    if own is None:
        return None
    parts = [messages[own[name][0]] for name in INLINED if name in own]
    return {name: found for part in (own, *parts) for name, found in part.items()}


def _unknown(message: str, value: Any, path: str) -> list[str]:
    fields = _fields(message)
    if fields is None or not isinstance(value, dict):
        return []
    found = [f"{path}{name}: unknown field" for name in value if name not in fields]
    for name in value.keys() & fields.keys():
        kind, often = fields[name]
        below = value[name]
        if often == "map":
            continue
        for one in below if isinstance(below, list) else [below]:
            found += _unknown(kind, one, f"{path}{name}.")
    return found
