"""What a program or library for Linux says that it needs, and which part of it is never loaded.

Read from the file alone: it may be of another architecture.

Only 64-bit little-endian files are read, which all supported architectures have. The layout is in elf(5).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<qQ")
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRING_TABLE = 1, 5


def loadable(data: bytes) -> bytes:
    """A library without what is behind its last segment: sections for linkers and debuggers, which no loader reads.

    Wheels often have them, up to nine tenths of a file. Other files come back as they are.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        return data
    header = list(_HEADER.unpack_from(data))
    segments = _segments(data, header)
    ends = [one[2] + one[5] for one in segments]
    header[6] = header[12] = header[13] = 0  # there is no table of sections any more
    return _HEADER.pack(*header) + data[_HEADER.size : max(ends, default=len(data))]


def interpreter_and_needed(path: Path) -> list[str]:
    """The path of the loader, if the file names one, and the names of the libraries that it is linked with.

    Nothing for a file that is no such program. Raises ValueError for one of 32 bits or another byte order.
    """
    data = path.read_bytes()
    if data[:4] != b"\x7fELF":
        return []
    if data[4:6] != b"\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian program")
    header = _HEADER.unpack_from(data)
    segments = _segments(data, header)
    loaders = [_text(data, one[2]) for one in segments if one[0] == _INTERPRETER]
    return [*loaders, *_needed(data, segments)]


def _segments(data: bytes, header: Sequence[int]) -> list[tuple[int, ...]]:
    start, size, count = header[5], header[9], header[10]
    return [_SEGMENT.unpack_from(data, start + i * size) for i in range(count)]


def _needed(data: bytes, segments: list[tuple[int, ...]]) -> Iterator[str]:
    for _, _, offset, _, _, size, _, _ in (one for one in segments if one[0] == _DYNAMIC):
        entries = list(_ENTRY.iter_unpack(data[offset : offset + size - size % _ENTRY.size]))
        tables = [value for tag, value in entries if tag == _STRING_TABLE]
        for tag, value in entries:
            if tag == _NEEDED:
                yield _text(data, _offset(segments, tables[0]) + value)


def _offset(segments: list[tuple[int, ...]], address: int) -> int:
    """Where in the file an address of memory comes from."""
    for kind, _, offset, virtual, _, size, _, _ in segments:
        if kind == _LOAD and virtual <= address < virtual + size:
            return offset + address - virtual
    raise ValueError(f"address {address:#x} is in no segment")


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()
