"""``cmsgpack`` of Lua scripts, for what the services pack: an array of strings, byte for byte as Redis packs it.

A packed value is a member of a sorted set, so equal values must have equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

_BAD = "ERR Bad data format in input."


def pack(strings: Sequence[bytes]) -> bytes:
    """Raises TypeError for anything but strings."""
    parts = [_head(len(strings), 16, 0x90, (0xDC, 0xDD), (2, 4))]
    for one in strings:
        if not isinstance(one, bytes):
            raise TypeError(f"ERR cmsgpack packs strings only, not {one!r}")
        parts += [_head(len(one), 32, 0xA0, (0xD9, 0xDA, 0xDB), (1, 2, 4)), one]
    return b"".join(parts)


def _head(size: int, small: int, tag: int, tags: Sequence[int], widths: Sequence[int]) -> bytes:
    """The tag and the size, as short as possible."""
    if size < small:
        return bytes([tag | size])
    for wide, width in zip(tags, widths, strict=True):
        if size < 1 << 8 * width:
            return bytes([wide]) + size.to_bytes(width, "big")
    raise ValueError(f"ERR {size} does not fit")


def unpack(data: bytes) -> list[bytes]:
    """Raises ValueError for anything but an array of strings."""
    count, at = _size(data, 0, 0x90, 0xF0, {0xDC: 2, 0xDD: 4})
    found: list[bytes] = []
    for _ in range(count):
        size, at = _size(data, at, 0xA0, 0xE0, {0xD9: 1, 0xDA: 2, 0xDB: 4})
        found.append(data[at : at + size])
        at += size
    if at != len(data):
        raise ValueError(_BAD)
    return found


def _size(data: bytes, at: int, tag: int, mask: int, widths: dict[int, int]) -> tuple[int, int]:
    """The size that begins at ``at``, and where it ends."""
    first = data[at] if at < len(data) else 0
    if first & mask == tag:
        return first & ~mask & 0xFF, at + 1
    if first not in widths:
        raise ValueError(_BAD)
    end = at + 1 + widths[first]
    return int.from_bytes(data[at + 1 : end], "big"), end
