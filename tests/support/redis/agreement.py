"""Two Redis servers get the same commands; their replies must be equal byte for byte.

What a server takes from its clock cannot be equal: the ids of entries (``1790000000000-0``), idle times, the time. So
replies are compared value by value: an id of one server stands for the id at the same place of the other server's
reply, for as long as both live, and a later command that names it (``Reference``) names to each server its own.
``clock_numbers`` says where a reply has times.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Reply = tuple[bytes, "bytes | int | list[Reply] | None"]
"""The type byte of RESP2 and the value: ``(b"+", b"OK")``, ``(b"*", [(b":", 1)])``, ``(b"$", None)``."""
CLOCK_ID = re.compile(rb"[1-9]\d{12}-\d+")
"""An id that a server made from its clock; ids that tests choose are short."""
CLOCK_NUMBER = re.compile(rb"[1-9]\d{12}(\.\d+)?")
"""A time in milliseconds, as scripts make them."""

LINE = re.compile(rb"(?<=user_script:)-?\d+")


@dataclass(frozen=True)
class Reference:
    """The ``number``-th id (counted from the newest) that both servers made from their clocks."""

    number: int


Word = bytes | Reference
Command = tuple[Word, ...]


class Server(Protocol):
    """A connection to a server."""

    def ask(self, *words: bytes) -> bytes:
        """One command and the bytes of its reply."""


class RealServer:
    """A blocking connection to a redis-server on loopback."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._received = b""

    def ask(self, *words: bytes) -> bytes:
        """One command and the bytes of its reply."""
        self.send(*words)
        return self.receive()

    def send(self, *words: bytes) -> None:
        """One command, whose reply ``receive`` returns."""
        self._socket.sendall(packed(words))

    def receive(self) -> bytes:
        """Wait for the bytes of one reply."""
        while True:
            try:
                _, end = parsed(self._received, 0)
            except IndexError:
                self._received += self._socket.recv(1 << 16)
                continue
            reply, self._received = self._received[:end], self._received[end:]
            return reply

    def close(self) -> None:
        self._socket.close()


def packed(words: Sequence[bytes]) -> bytes:
    """A command as clients send it."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(one), one) for one in words)


def parsed(data: bytes, at: int) -> tuple[Reply, int]:
    """The reply at ``at`` and where it ends. Raises IndexError when it is not all there yet."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise IndexError
    kind, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind in b"+-":
        return (kind, line), at
    if kind == b":":
        return (kind, int(line)), at
    size = int(line)
    if size < 0:
        return (kind, None), at
    if kind == b"$":
        if len(data) < at + size + 2:
            raise IndexError
        return (kind, data[at : at + size]), at + size + 2
    items: list[Reply] = []
    for _ in range(size):
        item, at = parsed(data, at)
        items.append(item)
    return (kind, items), at


@dataclass
class Agreement:
    """Compares two servers over a series of commands."""

    left: Server
    right: Server
    exact_errors: bool = True
    """Otherwise errors are equal when their codes are."""
    ids: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Ids that the left server made from its clock, each with that of the right one."""
    queued: list[Sequence[bytes]] = field(default_factory=list)
    """The commands of the open transaction, whose replies come with EXEC."""

    def check(self, command: Command) -> str:
        """Send the command to both. Empty, or the difference of the replies in words."""
        _wait_for_next_millisecond()
        sent = [tuple(_word(one, self.ids, side) for one in command) for side in (0, 1)]
        raw = [self.left.ask(*sent[0]), self.right.ask(*sent[1])]
        replies = [parsed(one, 0)[0] for one in raw]
        found = next(self._all_differences(sent[0], *replies), None)
        return f"{sent[0]}: {found}\n  {raw[0]!r}\n  {raw[1]!r}" if found else ""

    def _all_differences(self, sent: Sequence[bytes], left: Reply, right: Reply) -> Iterator[str]:
        if left == (b"+", b"QUEUED"):
            self.queued.append(sent)
        queued = self.queued
        if sent[0].upper() in (b"EXEC", b"DISCARD"):
            self.queued = []
        (_, one), (_, other) = left, right
        if sent[0].upper() == b"EXEC" and isinstance(one, list) and isinstance(other, list):
            for command, a, b in zip(queued, one, other, strict=True):
                yield from self._all_differences(command, a, b)
        elif sent[0].upper() == b"XADD" and _are(CLOCK_ID, one, other):
            self.ids.append((one, other))  # type: ignore[arg-type]
        else:
            sorted_replies = _sorted(sent, left), _sorted(sent, right)
            yield from self._differences(*sorted_replies, (), clock_numbers(sent))

    def _differences(
        self, left: Reply, right: Reply, path: tuple[int, ...], moving: Sequence[str]
    ) -> Iterator[str]:
        (kind, one), (other_kind, other) = left, right
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            for index, (a, b) in enumerate(zip(one, other, strict=True)):
                yield from self._differences(a, b, (*path, index), self._named(moving, one, index))
        elif kind == other_kind == b"-":
            shown = _without_line if self.exact_errors else _code
            if shown(one) != shown(other):
                yield f"{one!r} is not {other!r}"
        elif kind != other_kind or not self._equal(one, other, path, moving):
            yield f"{kind.decode()}{one!r} is not {other_kind.decode()}{other!r} at {path}"

    def _named(self, moving: Sequence[str], items: list[Reply], index: int) -> Sequence[str]:
        """``idle`` and the like are the values after their name in a flat list of pairs."""
        name = items[index - 1][1] if index % 2 else None
        return (
            ("*",)
            if isinstance(name, bytes) and name.decode(errors="replace") in moving
            else moving
        )

    def _equal(
        self, one: object, other: object, path: tuple[int, ...], moving: Sequence[str]
    ) -> bool:
        if moving == ("*",) or "".join(f"[{i}]" for i in path[1:]) in moving:
            return type(one) is type(other)
        if isinstance(one, int) and isinstance(other, int) and one > 1e12 and other > 1e12:
            return abs(one - other) < 60_000
        if isinstance(one, bytes) and isinstance(other, bytes):
            if _are(CLOCK_ID, one, other):
                return self._paired(one, other)
            if _are(CLOCK_NUMBER, one, other):
                return abs(float(one) - float(other)) < 60_000
        return one == other

    def _paired(self, one: bytes, other: bytes) -> bool:
        """Whether the ids belong together. A transaction may give the same id to two streams on one server only."""
        new = one not in (left for left, _ in self.ids) or other not in (
            right for _, right in self.ids
        )
        if new:
            self.ids.append((one, other))
        return new or (one, other) in self.ids


def _sorted(command: Sequence[bytes], reply: Reply) -> Reply:
    """The members of a set and the fields of a hash have no order."""
    kind, items = reply
    width = {b"SMEMBERS": 1, b"HGETALL": 2}.get(command[0].upper(), 0)
    if not width or not isinstance(items, list):
        return reply
    rows = sorted((items[at : at + width] for at in range(0, len(items), width)), key=repr)
    return kind, [item for row in rows for item in row]


def _wait_for_next_millisecond() -> None:
    """Otherwise two streams may have the same id on one server and not on the other."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now:
        time.sleep(0.0002)


def _code(error: object) -> bytes:
    return error.split(b" ")[0] if isinstance(error, bytes) else b""


def _without_line(error: object) -> bytes:
    """Lua hides the line of a script that ends with ``return redis.call(…)`` from the server in memory."""
    return LINE.sub(b"", error) if isinstance(error, bytes) else b""


def _are(pattern: re.Pattern[bytes], one: object, other: object) -> bool:
    return all(isinstance(value, bytes) and pattern.fullmatch(value) for value in (one, other))


def clock_numbers(command: Sequence[bytes]) -> Sequence[str]:
    """The places in the reply to ``command`` that depend on the clock: fields, ``[2]`` of each item, or ``*``."""
    name = command[0].upper()
    if name in (b"TIME", b"TTL", b"PTTL"):
        return ("*",)
    if name == b"XINFO":
        # How Redis stores the stream in RAM; nobody reads it.
        return (
            "idle",
            "inactive",
            "seen-time",
            "active-time",
            "radix-tree-keys",
            "radix-tree-nodes",
        )
    if name == b"XPENDING" and len(command) > 3:
        return ("[2]",)
    return ()


def _word(word: Word, ids: Sequence[tuple[bytes, bytes]], side: int) -> bytes:
    if isinstance(word, bytes):
        return word
    return ids[-1 - word.number % len(ids)][side] if ids else b"7-7"
