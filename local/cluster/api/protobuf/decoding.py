"""Decodes objects from Protocol Buffers to their JSON form.

A body is the four bytes ``k8s\\0`` and an envelope that names apiVersion and kind. fields.json holds the field numbers
(see ``release/protobuf_fields.py``). Unknown fields of newer clients are dropped, as on a real server.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable
from typing import Any

import orjson

from local.cluster.api.protobuf.wire import BYTES, FIXED64, VARINT, double, fields_of, signed
from shared.concurrency.clock import rfc3339
from shared.distribution.files import packaged

MAGIC = b"k8s\x00"
TABLE_FILE = packaged("local.cluster.api.protobuf", "fields.json")
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999 in seconds since the epoch."""
Document = dict[str, Any]


class UnknownKindError(ValueError):
    """A kind that is not in the table."""


class Table:
    """The field numbers of the kinds."""

    def __init__(self, table: Document) -> None:
        self._kinds: dict[str, str] = table["kinds"]
        self._messages = {
            name: {int(number): tuple(field) for number, field in fields.items()}
            for name, fields in table["messages"].items()
        }

    def decode(self, content: bytes) -> Document:
        """The object in ``content``. Raises ValueError for invalid content, UnknownKindError for an unknown kind."""
        if not content.startswith(MAGIC):
            raise ValueError("it does not begin with the bytes that mark protobuf objects")
        parts = {number: _bytes(value) for number, _, value in fields_of(content[len(MAGIC) :])}
        types = {number: _text(value) for number, _, value in fields_of(parts.get(1, b""))}
        api_version, kind = types.get(1, ""), types.get(2, "")
        if parts.get(3):
            raise ValueError(f"its encoding {_text(parts[3])} is not supported")
        name = self._kinds.get(f"{api_version} {kind}") or self._kinds.get(kind)
        if name is None:
            raise UnknownKindError(f"{kind} in {api_version} cannot be decoded; send JSON")
        body = self._message(name, parts.get(2, b""))
        return {"apiVersion": api_version, "kind": kind, **body}

    def _message(self, name: str, content: bytes) -> Any:
        # No message in the table contains itself, so the recursion is bounded whatever the bytes are.
        if name in _LEAVES:
            return _LEAVES[name]({n: value for n, _, value in fields_of(content)})
        document: Document = {}
        known = self._messages[name]
        for number, wire_type, raw in fields_of(content):
            if number in known:
                self._add(document, known[number], wire_type, raw)
        if _is_list(known):
            return document.get("items", [])
        return document

    def _add(self, document: Document, field: tuple[str, ...], wire_type: int, raw: Any) -> None:
        name, kind, how = field
        if how == "map":
            entry = {number: (found, value) for number, found, value in fields_of(_bytes(raw))}
            value = self._value(kind, *entry.get(2, (BYTES, b"")))
            document.setdefault(name, {})[_text(entry.get(1, (BYTES, b""))[1])] = value
            return
        value = self._value(kind, wire_type, raw)
        if how == "repeated":
            document.setdefault(name, []).append(value)
        elif how == "inline":
            document.update(value)
        elif value is not None and (how != "nonzero" or value):
            document[name] = value

    def _value(self, kind: str, wire_type: int, raw: int | bytes) -> Any:
        if kind in _SCALARS:
            expected, convert = _SCALARS[kind]
            if wire_type != expected:
                raise ValueError("a field has another type than its kind says")
            return convert(raw)
        return self._message(kind, _bytes(raw))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where a message or a text belongs")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


_SCALARS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "s": (BYTES, _text),
    "y": (BYTES, lambda raw: base64.b64encode(raw).decode()),
    "b": (VARINT, bool),
    "i": (VARINT, signed),
    "d": (FIXED64, double),
}


def _is_list(known: dict[int, tuple[str, ...]]) -> bool:
    # A type that is a list of texts in JSON, such as Verbs.
    return known == {1: ("items", "s", "repeated")}


Values = dict[int, int | bytes]


def _time(values: Values) -> str | None:
    seconds = signed(int(values.get(1, 0)))
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise ValueError("a time is before the year 1 or after 9999")
    return rfc3339(seconds) if values.get(1) or values.get(2) else None


def _micro_time(values: Values) -> str | None:
    whole = _time(values)
    micros = int(values.get(2, 0)) // 1000
    return f"{whole.removesuffix('Z')}.{micros:06d}Z" if whole else None


def _int_or_string(values: Values) -> int | str:
    return _text(values.get(3, b"")) if values.get(1) else signed(int(values.get(2, 0)))


def _quantity(values: Values) -> str:
    return _text(values.get(1, b"")) or "0"


def _json(values: Values) -> Any:
    return orjson.loads(_bytes(values.get(1, b"null")) or b"null")


_LEAVES: dict[str, Callable[[Values], Any]] = {
    "meta/v1.Time": _time,
    "meta/v1.MicroTime": _micro_time,
    "meta/v1.FieldsV1": _json,
    "intstr.IntOrString": _int_or_string,
    "resource.Quantity": _quantity,
    "runtime.RawExtension": _json,
}


@functools.cache
def _table() -> Table:
    return Table(json.loads(TABLE_FILE.read_text()))


def decoded(content: bytes) -> Document:
    """The object in a request body. Raises ValueError, UnknownKindError."""
    return _table().decode(content)
