"""The wire format of Protocol Buffers: bytes to (field number, raw value) pairs.

Bytes that are no message always raise ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def fields_of(content: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, value) of every field; numbers for VARINT, bytes for all other types.

    Raises ValueError.
    """
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise ValueError("field number 0")
        if kind == VARINT:
            value, position = _varint(content, position)
            yield number, kind, value
            continue
        length, position = _length(content, position, kind)
        if position + length > len(content):
            raise ValueError("the message is cut off")
        yield number, kind, content[position : position + length]
        position += length


def _length(content: bytes, position: int, kind: int) -> tuple[int, int]:
    if kind == BYTES:
        return _varint(content, position)
    if kind in (FIXED64, FIXED32):
        return (8 if kind == FIXED64 else 4), position
    raise ValueError(f"wire type {kind} is not used by Kubernetes")


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(_LONGEST_VARINT):
        if position >= len(content):
            raise ValueError("the message is cut off")
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
    raise ValueError("a number has more than 64 bits")


def signed(value: int) -> int:
    """A 64-bit number as int32 and int64 fields interpret it."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: bytes) -> float:
    """A FIXED64 value of a double field."""
    number: float = struct.unpack("<d", value)[0]
    return number
