"""Dead letters: messages that failed too often or could not be read, kept in ``<stream>:dead``
for people.

The letter is written before the entry is acknowledged, as separate commands (a transaction is
refused when Redis is full, F10): a crash between them leaves two letters, never none. What comes
from another queue, under a name of its own (``once``), is known when it comes again. The key that
failed is also put under quarantine for ten minutes, which a resync loop asks about so that it does
not feed the same poison at once. The stream keeps about the last thousand letters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from redis.asyncio import Redis

from shared.bus.connection import ask, pairs, redis_errors
from shared.bus.envelope import BODY_LIMIT_BYTES, BadMessage, Envelope
from shared.errors import InvalidObject, NotFound

DEAD_LIMIT = 1000
ERROR_LIMIT_CHARACTERS = 1024
RAW_LIMIT_BYTES = 4096
"""What is kept of each field of an entry that is larger than any valid envelope."""
QUARANTINE_MILLISECONDS = 600_000
NAMES_LIMIT = 10_000
NAMES_MILLISECONDS = 14 * 86_400_000
"""Of names that were buried ``once``: the latest so many, for as long as SQS may keep a message."""

_RawFields = dict[bytes, bytes]
_BURY_ONCE = """
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(ARGV, 5))
redis.call('ZADD', KEYS[2], string.match(id, '^%d+'), ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
"""
"""The letter comes first: a Redis that is full refuses it and remembers nothing."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One parked message. ``fields`` is what the entry held.

    ``envelope`` is None when the entry could not be read.
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
        self._stream_key = f"{prefix}{stream}"
        self._dead_key = f"{prefix}{stream}:dead"
        self._names_key = f"{self._dead_key}:names"
        self._bury_once = redis.register_script(_BURY_ONCE)
        self._quarantine_prefix = f"{prefix}quarantine:{stream}:"

    async def bury(
        self,
        *,
        source: str,
        group: str,
        fields: _RawFields,
        deliveries: int,
        error: Exception,
        once: str = "",
    ) -> None:
        """Park one entry; with a name ``once``, one of that name. Raises TransientError: the entry must then stay
        pending.
        """
        letter: dict[str, str | bytes | float] = {
            "source": source,
            "group": group,
            "error": f"{type(error).__name__}: {error}"[:ERROR_LIMIT_CHARACTERS],
            "deliveries": deliveries,
            "fields": msgspec.msgpack.encode(_cut(fields)),
        }
        flat = [part for pair in letter.items() for part in pair]
        await self._park(flat, once)
        key = fields.get(b"key")
        if key:
            quarantine = self._quarantine_key(group, key.decode(errors="replace"))
            command = ("SET", quarantine, source, "PX", QUARANTINE_MILLISECONDS)
            await ask(self._redis, "set the quarantine", *command)

    async def _park(self, flat: list[str | bytes | float], once: str) -> None:
        operation = "park a dead letter"
        if once:
            limits = (DEAD_LIMIT, NAMES_LIMIT, NAMES_MILLISECONDS)
            with redis_errors(operation):
                await self._bury_once(
                    keys=[self._dead_key, self._names_key], args=[once, *limits, *flat]
                )
            return
        command = ("XADD", self._dead_key, "MAXLEN", "~", DEAD_LIMIT, "*", *flat)
        await ask(self._redis, operation, *command)

    async def quarantined(self, group: str, key: str) -> bool:
        """True while the object ``key`` has killed a message of ``group`` within ten minutes."""
        quarantine = self._quarantine_key(group, key)
        return bool(await ask(self._redis, "read the quarantine", "EXISTS", quarantine))

    async def count(self) -> int:
        """How many letters are kept."""
        return int(await ask(self._redis, "count dead letters", "XLEN", self._dead_key))

    async def newest(self, count: int) -> list[DeadLetter]:
        """The latest letters, newest first."""
        return await self._range("+", "-", count)

    async def replay(self, letter_id: str) -> None:
        """Put one letter back on its stream for the group that gave up on it, and remove it here.

        Raises NotFound for an unknown id, InvalidObject for an entry that cannot be read.
        """
        letters = await self._range(letter_id, letter_id, 1)
        if not letters:
            raise NotFound(f"no dead letter {letter_id}")
        letter = letters[0]
        if letter.envelope is None:
            raise InvalidObject("is not a readable message, it cannot be replayed", field="letter")
        fresh = dataclasses.replace(letter.envelope, attempt=0, only_group=letter.group)
        flat = [part for pair in fresh.encode().items() for part in pair]
        quarantine = self._quarantine_key(letter.group, letter.envelope.key)
        await ask(self._redis, "lift the quarantine", "DEL", quarantine)
        await ask(self._redis, "replay a dead letter", "XADD", self._stream_key, "*", *flat)
        await ask(self._redis, "remove a dead letter", "XDEL", self._dead_key, letter_id)

    def _quarantine_key(self, group: str, key: str) -> str:
        return f"{self._quarantine_prefix}{group}:{key}"

    async def _range(self, newest: str, oldest: str, count: int) -> list[DeadLetter]:
        command = ("XREVRANGE", self._dead_key, newest, oldest, "COUNT", count)
        entries = await ask(self._redis, "read dead letters", *command)
        return [_letter(entry_id.decode(), pairs(flat)) for entry_id, flat in entries]


def _cut(fields: Mapping[bytes, bytes]) -> _RawFields:
    """The fields as they are, or cut when they are larger than any envelope can be."""
    if sum(len(name) + len(value) for name, value in fields.items()) <= 2 * BODY_LIMIT_BYTES:
        return dict(fields)
    kept = list(fields.items())[:16]
    return {name[:RAW_LIMIT_BYTES]: value[:RAW_LIMIT_BYTES] for name, value in kept}


def _letter(letter_id: str, fields: Mapping[bytes, bytes]) -> DeadLetter:
    raw = msgspec.msgpack.decode(fields[b"fields"], type=_RawFields)
    try:
        envelope = Envelope.decode(raw)
    except BadMessage:
        envelope = None
    return DeadLetter(
        id=letter_id,
        source=fields[b"source"].decode(),
        group=fields[b"group"].decode(),
        error=fields[b"error"].decode(),
        deliveries=int(fields[b"deliveries"]),
        envelope=envelope,
        fields=raw,
    )
