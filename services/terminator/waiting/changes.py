"""Which objects changed lately, by the mirror's stream: one read of Redis for all terminations that wait.

A step reads machine, node and pods from the API server. Between two steps that find nothing to do, this tells whether a
step could find something: only then, or after ``LONGEST_WAIT_SECONDS``, it is taken. Nothing else is decided by it, so
entries need not be verified: a forged one costs a few requests.

What may go wrong: the watcher or Redis is away. Then each termination takes a step every ``BLIND_SECONDS``. Entries are
lost: then everything counts as changed. A change that the watcher does not see is found later, by the next step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import msgspec

from services.terminator.waiting.step import Wait
from shared.concurrency.clock import Clock
from shared.domain.records import PODS
from shared.redis.bus import Bus
from shared.redis.bus.connection import REDIS_FAILURES, call, pairs, server_time
from shared.redis.mirror.change import OP_DELETE, OP_HEARTBEAT, OP_PUT, MirrorKeys
from shared.redis.mirror.integrity.digests import split

LOOK_SECONDS = 0.5
"""Shortest time between two reads."""
SILENT_SECONDS = 6.0
"""Three heartbeats of the watcher: without any entry for so long the mirror proves nothing."""
BLIND_SECONDS = 3.0
"""From step to step while it proves nothing."""
READ_BATCH = 1000
MOST_OBJECTS = 20_000
ON_NODE = "pods of a node"


class _Place(msgspec.Struct):
    """What is read of a pod's record."""

    node_name: str = ""


_PLACE = msgspec.json.Decoder(_Place)


class Mark(NamedTuple):
    """``number`` of the last change that was known at a moment, and its monotonic time."""

    number: int
    at: float


@dataclass
class ChangeIndex:
    """The numbers of the last changes: pure. What changed before ``known_from`` is not known."""

    number: int = 0
    """Of the last change."""
    known_from: int = 0
    _generation: int | None = None
    _last: dict[tuple[str, str], int] = field(default_factory=dict)

    def forget(self) -> None:
        """Entries may be missing: everything counts as changed now."""
        self.number += 1
        self.known_from, self._generation = self.number, None
        self._last.clear()

    def add(self, fields: Mapping[bytes, bytes]) -> None:
        """Note one entry of the stream."""
        op, generation = fields.get(b"op"), fields.get(b"generation", b"")
        is_change = op in (OP_PUT, OP_DELETE)
        if not generation.isdigit() or not (is_change or op == OP_HEARTBEAT):
            self.forget()
            return
        before, self._generation = self._generation, int(generation)
        if before is not None and self._generation != before + is_change:
            self.forget()
        elif is_change:
            self._note(fields)

    def touched(self, wait: Wait, since: int) -> bool:
        """Whether something that ``wait`` names may have changed after the change ``since``."""
        if since < self.known_from:
            return True
        names = (*wait.objects, (ON_NODE, wait.node))
        return any(self._last.get(name, 0) > since for name in names)

    def _note(self, fields: Mapping[bytes, bytes]) -> None:
        self.number += 1
        kind = fields.get(b"kind", b"").decode(errors="replace")
        self._last[kind, fields.get(b"key", b"").decode(errors="replace")] = self.number
        if kind == PODS and fields[b"op"] == OP_PUT:
            self._last[ON_NODE, _node_of(fields.get(b"body", b""))] = self.number
        if len(self._last) > MOST_OBJECTS:
            self.forget()


def _node_of(value: bytes) -> str:
    try:
        return _PLACE.decode(split(value)[1]).node_name
    except msgspec.MsgspecError:
        return ""


@dataclass
class MirrorChanges:
    """Reads the stream only while somebody waits."""

    bus: Bus
    clock: Clock
    index: ChangeIndex = field(default_factory=ChangeIndex)
    _position: str | bytes = ""
    _looked: float = -inf
    _heard: float = -inf
    """Monotonic time of the last entry, or of the start of the reading."""
    _alive: bool = False
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def mark(self) -> Mark:
        """To be kept before a step reads its objects."""
        return Mark(self.index.number, self.clock.monotonic())

    async def due(self, wait: Wait, since: Mark) -> bool:
        """Whether the next step is due. ``since``: ``mark`` before the last one."""
        if self.clock.monotonic() >= wait.until:
            return True
        async with self._reading:
            if self.clock.monotonic() - self._looked >= LOOK_SECONDS:
                await self._look()
        if not self._alive:
            return self.clock.monotonic() - since.at >= BLIND_SECONDS
        return self.index.touched(wait, since.number)

    async def _look(self) -> None:
        before, self._looked = self._looked, self.clock.monotonic()
        try:
            if not self._position or self._looked - max(before, self._heard) > SILENT_SECONDS:
                await self.begin()
            else:
                await self.read()
        except REDIS_FAILURES:
            self._lose()
        if self._looked - self._heard > SILENT_SECONDS:
            self._lose()

    async def begin(self) -> None:
        """Read from now on, not from what was read last: nobody waited, and it may be long ago. Raises as ``call``."""
        self._lose()
        self._position = f"{int(await server_time(self.bus.redis) * 1000)}-0"
        self._heard = self._looked

    def _lose(self) -> None:
        self._position, self._alive = "", False
        self.index.forget()

    async def read(self) -> None:
        """Note what came since the last read. Raises as ``call``."""
        stream = MirrorKeys(self.bus.prefix).stream
        options = ("COUNT", READ_BATCH, "STREAMS", stream, self._position)
        reply = await call(self.bus.redis, "read the mirror's changes", "XREAD", *options)
        entries = reply[0][1] if reply else []
        for entry_id, fields in entries:
            self._position, self._alive, self._heard = entry_id, True, self._looked
            self.index.add(pairs(fields))
        if len(entries) == READ_BATCH:
            self._position = ""  # rather than work off what nobody waits for
            self.index.forget()
