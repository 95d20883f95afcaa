"""RESP2, the wire format of Redis: replies as Python values and as bytes.

Integers, bulk strings (bytes), null (None) and arrays (list) are plain values. What differs only on the wire has a type
of its own: ``Status``, ``CommandError`` and ``NULL_ARRAY``.
"""

from __future__ import annotations

from typing import Any, Final

Reply = Any
"""int, bytes, None, Status, CommandError, NULL_ARRAY, or a list of these."""


class Status(bytes):
    """A simple string, such as ``+OK``."""

    __slots__ = ()


class CommandError(Exception):
    """An error reply: its first word is the error's code."""

    def __init__(self, text: str | bytes) -> None:
        super().__init__(text)
        self.text = text.encode() if isinstance(text, str) else text


class _NullArray:
    """The null of replies that are arrays otherwise."""


OK: Final = Status(b"OK")
QUEUED: Final = Status(b"QUEUED")
NULL_ARRAY: Final = _NullArray()
WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value"
SYNTAX_ERROR: Final = "ERR syntax error"
NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"


def encoded(reply: Reply) -> bytes:
    """The reply on the wire."""
    kind = type(reply)
    if kind is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if kind is int:
        return b":%d\r\n" % reply
    if reply is None:
        return b"$-1\r\n"
    if kind is list:
        return b"*%d\r\n%b" % (len(reply), b"".join(map(encoded, reply)))
    if kind is Status:
        return b"+%b\r\n" % reply
    if kind is CommandError:
        # A line break would end the error.
        return b"-%b\r\n" % reply.text.replace(b"\r", b" ").replace(b"\n", b" ")
    if reply is NULL_ARRAY:
        return b"*-1\r\n"
    raise TypeError(f"{reply!r} is no reply")


def number(word: bytes, error: str = NOT_AN_INTEGER) -> int:
    """A whole number of 64 bits as Redis reads it: no spaces, no plus, no leading zeros. Raises CommandError."""
    digits = word[1:] if word[:1] == b"-" else word
    if word != b"0" and (not digits.isdigit() or digits[:1] == b"0"):
        raise CommandError(error)
    value = int(word)
    if not -(2**63) <= value < 2**63:
        raise CommandError(error)
    return value


def double(word: bytes, error: str = "ERR value is not a valid float") -> float:
    """A floating-point number as Redis reads it. Raises CommandError."""
    try:
        value = float(word)
    except ValueError:
        raise CommandError(error) from None
    if value != value or word != word.strip() or b"_" in word:
        raise CommandError(error)
    return value


def double_text(value: float) -> bytes:
    """A score as Redis 7.0 prints it: 17 significant digits, whole numbers without a point."""
    if value in (float("inf"), float("-inf")):
        return b"inf" if value > 0 else b"-inf"
    if value == int(value) and abs(value) < 2**52:
        return b"%d" % int(value) if value or str(value)[0] != "-" else b"-0"
    return b"%.17g" % value
