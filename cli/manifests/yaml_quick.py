"""Reads the values of YAML or JSON without positions, several times as fast as ``yaml_documents``.

Positions are only needed for faults, and most files have none. Anything unusual (an error, an alias, a tag, a duplicate
key, a limit) gives None, and the file is read carefully instead; so this module has no messages of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from cli.manifests.yaml_scalars import scalar_value

_MERGE = "<<"
_WHITE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _Unusual(Exception):
    """The file must be read carefully."""


def quick_values(text: str, loader: Any, most_values: int, most_levels: int) -> list[Any] | None:
    """The value of each document; None when the text must be read carefully."""
    try:
        if text.lstrip()[:1] in ("{", "["):
            return [_json_value(text, most_values, most_levels)]
        return _yaml_values(yaml.parse(text, Loader=loader), most_values, most_levels)
    except (_Unusual, yaml.YAMLError, ValueError, RecursionError):
        return None


def json_parts(text: str) -> list[tuple[int, int]]:
    """Beginning and end of each JSON object, where ``text`` is several of them and nothing else; else none."""
    decoder, parts, at = json.JSONDecoder(), [], 0
    try:
        while (start := _WHITE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
            if text[start] != "{":
                return []
            at = decoder.raw_decode(text, start)[1]
            parts.append((start, at))
    except (ValueError, RecursionError):
        return []
    return parts if len(parts) > 1 else []


def _json_value(text: str, most_values: int, most_levels: int) -> Any:
    """Raises ValueError for text that is not one JSON document, or that YAML reads in another way."""
    if _SURROGATE.search(text) or yaml.reader.Reader.NON_PRINTABLE.search(text):
        raise _Unusual
    found = json.loads(
        text,
        object_pairs_hook=_object,
        parse_constant=_unusual,
        parse_int=_number,
        parse_float=_number,
    )
    _check_size(found, most_values, most_levels)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs) or _MERGE in found:
        raise _Unusual
    return found


def _unusual(_: str) -> Any:
    raise _Unusual


def _number(text: str) -> Any:
    return scalar_value(text, None, plain=True)


def _check_size(found: Any, most_values: int, most_levels: int) -> None:
    """Counts keys and values level by level, as the careful reading does: text may be one level deeper than lists."""
    level, left = [found], most_values
    for depth in range(most_levels + 1):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                left -= len(value)
                below += value.values()
            elif isinstance(value, list):
                below += value
        left -= len(level)
        at_end = depth == most_levels
        if left < 0 or (at_end and any(isinstance(value, dict | list) for value in level)):
            raise _Unusual
        level = below


def _yaml_values(events: Iterator[Any], most_values: int, most_levels: int) -> list[Any]:
    documents: list[Any] = []
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents.append(_document(events, most_levels))
    if sum(size for _, size in documents) > most_values:
        raise _Unusual
    return [value for value, _ in documents]


def _document(events: Iterator[Any], most_levels: int) -> tuple[Any, int]:
    """The next document, and the number of its keys and values. ``key``: None when a key comes next in an object."""
    root: list[Any] = []
    top: Any = root
    key: str | None = None
    outer: list[tuple[Any, str | None]] = []
    size = 0
    for event in events:
        kind = type(event)
        if kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            top, key = outer.pop()
            continue
        if kind is yaml.DocumentEndEvent:
            return (root[0] if root else None), size
        if kind is yaml.AliasEvent or event.anchor is not None or event.tag is not None:
            raise _Unusual
        size += 1
        if kind is yaml.ScalarEvent:
            if key is None and type(top) is dict:
                key = event.value
                if key in top or key == _MERGE:
                    raise _Unusual
                continue
            value: Any = scalar_value(event.value, None, plain=event.implicit[0])
        elif key is None and type(top) is dict:
            raise _Unusual
        else:
            value = {} if kind is yaml.MappingStartEvent else []
        if key is None:
            top.append(value)
        else:
            top[key], key = value, None
        if kind is not yaml.ScalarEvent:
            outer.append((top, key))
            top = value
            if len(outer) > most_levels:
                raise _Unusual
    raise _Unusual
