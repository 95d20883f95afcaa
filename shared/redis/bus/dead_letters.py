"""Dead letters: messages that failed too often or could not be read, kept in ``<stream>:dead`` for people.

``dovetail dead-letters`` shows, replays and drops them; no service reads them. The dead letter is written before the
entry is acknowledged, in a separate command (a transaction is refused when Redis is full, F10): a crash between the
two leaves two dead letters, never none. A message from another queue has a name of its own (``once``), so its second
delivery adds no second dead letter. The stream keeps about the last thousand dead letters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from redis.asyncio import Redis

from shared.errors import InvalidObject, NotFound
from shared.redis.bus.connection import call, pairs, redis_errors
from shared.redis.bus.envelope import BODY_LIMIT_BYTES, BadMessage, Envelope

DEAD_LIMIT = 1000
ERROR_LIMIT_CHARACTERS = 1024
RAW_LIMIT_BYTES = 4096
"""Longest part that is kept of each field of an entry that is larger than any valid envelope."""
NAMES_LIMIT = 10_000
NAMES_MILLISECONDS = 14 * 86_400_000
"""Names given as ``once`` are kept for as long as SQS may keep a message, at most ``NAMES_LIMIT`` of them."""

_RawFields = dict[bytes, bytes]
_ADD_ONCE = """
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(ARGV, 5))
redis.call('ZADD', KEYS[2], string.match(id, '^%d+'), ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
"""
"""The dead letter is added before its name: a full Redis refuses the entry and then remembers no name."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter. ``fields`` are the raw fields of the stream entry, ``error`` is the last failure.

    ``envelope`` is None when the entry is not a readable message.
    """

    id: str
    source: str
    group: str
    error: str
    deliveries: int
    envelope: Envelope | None
    fields: _RawFields


class DeadLetters:
    """The dead letters of one stream."""

    def __init__(self, redis: Redis, prefix: str, stream: str) -> None:
        self._redis = redis
        self._stream = stream
        self._stream_key = f"{prefix}{stream}"
        self._dead_key = f"{prefix}{stream}:dead"
        self._names_key = f"{self._dead_key}:names"
        self._add_once = redis.register_script(_ADD_ONCE)

    async def add(
        self,
        *,
        source: str,
        group: str,
        fields: _RawFields,
        deliveries: int,
        error: Exception,
        once: str = "",
    ) -> None:
        """Store one entry as a dead letter; with a name ``once``, only when that name is new.

        Raises TransientError; the entry must then stay pending.
        """
        record: dict[str, str | bytes | float] = {
            "source": source,
            "group": group,
            "error": f"{type(error).__name__}: {error}"[:ERROR_LIMIT_CHARACTERS],
            "deliveries": deliveries,
            "fields": msgspec.msgpack.encode(_cut(fields)),
        }
        flat = [part for pair in record.items() for part in pair]
        await self._append(flat, once)

    async def _append(self, flat: list[str | bytes | float], once: str) -> None:
        operation = "add a dead letter"
        if once:
            limits = (DEAD_LIMIT, NAMES_LIMIT, NAMES_MILLISECONDS)
            async with redis_errors(operation):
                await self._add_once(
                    keys=[self._dead_key, self._names_key], args=[once, *limits, *flat]
                )
            return
        command = ("XADD", self._dead_key, "MAXLEN", "~", DEAD_LIMIT, "*", *flat)
        await call(self._redis, operation, *command)

    async def count(self) -> int:
        """How many dead letters are kept."""
        return int(await call(self._redis, "count dead letters", "XLEN", self._dead_key))

    async def newest(self, count: int) -> list[DeadLetter]:
        """The latest dead letters, newest first."""
        return await self._range("+", "-", count)

    async def get(self, entry_id: str) -> DeadLetter:
        """One dead letter. Raises NotFound for an unknown id."""
        found = await self._range(entry_id, entry_id, 1)
        if not found:
            raise NotFound(f"no dead letter {entry_id} in {self._stream}")
        return found[0]

    async def replay(self, entry_id: str) -> None:
        """Publish the message again for the one group that failed on it, and remove the dead letter.

        Raises NotFound for an unknown id, InvalidObject for an entry that is not a readable message.
        """
        dead = await self.get(entry_id)
        if dead.envelope is None:
            text = f"{entry_id} in {self._stream} is not a message of Dovetail, so it cannot be sent again"
            raise InvalidObject(text, field="letter")
        fresh = dataclasses.replace(dead.envelope, attempt=0, only_group=dead.group)
        flat = [part for pair in fresh.encode().items() for part in pair]
        # Add the message before the dead letter is removed: a crash between the two repeats the message, which every
        # handler tolerates, and never loses it.
        await call(self._redis, "replay a dead letter", "XADD", self._stream_key, "*", *flat)
        await self.drop(entry_id)

    async def drop(self, entry_id: str) -> None:
        """Remove one dead letter. Raises NotFound for an unknown id."""
        if not await call(self._redis, "drop a dead letter", "XDEL", self._dead_key, entry_id):
            raise NotFound(f"no dead letter {entry_id} in {self._stream}")

    async def _range(self, newest: str, oldest: str, count: int) -> list[DeadLetter]:
        command = ("XREVRANGE", self._dead_key, newest, oldest, "COUNT", count)
        entries = await call(self._redis, "read dead letters", *command)
        return [_dead_letter(entry_id.decode(), pairs(flat)) for entry_id, flat in entries]


def _cut(fields: Mapping[bytes, bytes]) -> _RawFields:
    """The fields unchanged, or cut when they are larger than any envelope can be."""
    if sum(len(name) + len(value) for name, value in fields.items()) <= 2 * BODY_LIMIT_BYTES:
        return dict(fields)
    kept = list(fields.items())[:16]
    return {name[:RAW_LIMIT_BYTES]: value[:RAW_LIMIT_BYTES] for name, value in kept}


def _dead_letter(entry_id: str, fields: Mapping[bytes, bytes]) -> DeadLetter:
    """One entry of the dead-letter stream; an entry that Dovetail did not write has empty fields and no envelope."""
    raw = _raw_fields(fields.get(b"fields", b""))
    try:
        envelope = Envelope.decode(raw)
    except BadMessage:
        envelope = None
    deliveries = fields.get(b"deliveries", b"")
    return DeadLetter(
        id=entry_id,
        source=fields.get(b"source", b"").decode(errors="replace"),
        group=fields.get(b"group", b"").decode(errors="replace"),
        error=fields.get(b"error", b"").decode(errors="replace"),
        deliveries=int(deliveries) if deliveries.isdigit() else 0,
        envelope=envelope,
        fields=raw,
    )


def _raw_fields(packed: bytes) -> _RawFields:
    try:
        return msgspec.msgpack.decode(packed, type=_RawFields)
    except msgspec.MsgspecError:
        return {}
