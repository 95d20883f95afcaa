"""The writing side of the mirror: the watcher only.

``begin`` gathers the whole snapshot in staging hashes and then swaps all of them in with one
script, so a reader sees the old mirror or the new one. ``apply`` changes hashes, generation and
stream with one script. Scripts instead of MULTI: they are as atomic, check in the same step that
the mirror is still ours, and number each entry.

What may go wrong: FLUSHALL or another writer (MirrorLost: call ``begin`` with a fresh snapshot),
a lost answer (Unreachable: repeat the same changes, they are idempotent), Redis full
(Unavailable: nothing was written).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from redis.asyncio import Redis

from shared.bus.connection import redis_errors
from shared.errors import InvalidObject
from shared.mirror.change import OP_DELETE, OP_PUT, OP_RESET, Change, MirrorKeys, MirrorLost

_T = TypeVar("_T")

BATCH = 500
"""Most changes in one step, and fields in one HSET."""
STREAM_LIMIT = 100_000
BODY_LIMIT_BYTES = 1024 * 1024
"""Above what the API server stores of one object, so that no real object is refused."""
STAGING_SECONDS = 600

_OURS = """
local function ours(epoch)
  return redis.call('GET', KEYS[1]) == epoch
    and redis.call('EXISTS', KEYS[2]) == 1 and redis.call('EXISTS', KEYS[3]) == 1
end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
"""
_COMMIT = (
    _OURS
    + """
-- KEYS: epoch generation complete heartbeat kinds stream, then staging and live hash per kind
-- ARGV: epoch, lowest generation, stream limit, hash prefix, then kind and size per kind
local count = (#KEYS - 6) / 2
for i = 1, count do
  if redis.call('HLEN', KEYS[5 + 2 * i]) ~= tonumber(ARGV[4 + 2 * i]) then return -1 end
end
for _, kind in ipairs(redis.call('SMEMBERS', KEYS[5])) do redis.call('UNLINK', ARGV[4] .. kind) end
redis.call('DEL', KEYS[5])
for i = 1, count do
  local staging, live = KEYS[5 + 2 * i], KEYS[6 + 2 * i]
  redis.call('UNLINK', live)
  if redis.call('EXISTS', staging) == 1 then
    redis.call('RENAME', staging, live)
    redis.call('PERSIST', live)
  end
  redis.call('SADD', KEYS[5], ARGV[3 + 2 * i])
end
local generation = math.max(tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(ARGV[2])) + 1
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], generation)
redis.call('SET', KEYS[3], '1')
redis.call('SET', KEYS[4], now())
redis.call('XADD', KEYS[6], 'MAXLEN', '~', ARGV[3], '*',
  'op', '"""
    + OP_RESET.decode()
    + """', 'epoch', ARGV[1], 'generation', generation)
return generation
"""
)
_APPLY = (
    _OURS
    + """
-- KEYS: epoch generation complete kinds stream, then one hash per kind
-- ARGV: epoch, stream limit, number of kinds, the kinds, then index, key, op, body per change
if not ours(ARGV[1]) then return -1 end
local kinds = tonumber(ARGV[3])
for i = 1, kinds do redis.call('SADD', KEYS[4], ARGV[3 + i]) end
local generation = tonumber(redis.call('GET', KEYS[2]))
for at = 4 + kinds, #ARGV, 4 do
  local index, key, op, body = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  generation = generation + 1
  if op == 'put' then
    redis.call('HSET', KEYS[5 + index], key, body)
  else
    redis.call('HDEL', KEYS[5 + index], key)
  end
  redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[2], '*', 'op', op, 'kind', ARGV[3 + index],
    'key', key, 'generation', generation, 'body', body)
end
redis.call('SET', KEYS[2], generation)
return generation
"""
)
_HEARTBEAT = (
    _OURS
    + """
if not ours(ARGV[1]) then return -1 end
redis.call('SET', KEYS[4], now())
return 1
"""
)


class MirrorWriter:
    """Writes the mirror under ``prefix``. One per watcher that holds the lease."""

    def __init__(
        self, redis: Redis, prefix: str, epoch: str, *, stream_limit: int = STREAM_LIMIT
    ) -> None:
        """``epoch`` is a random id of this incarnation of the writer."""
        self._redis = redis
        self._keys = MirrorKeys(prefix)
        self._incarnation = epoch
        self._stream_limit = stream_limit
        self._begins = 0
        self._epoch = ""
        self._generation = 0
        self._commit = redis.register_script(_COMMIT)
        self._apply = redis.register_script(_APPLY)
        self._heartbeat = redis.register_script(_HEARTBEAT)

    async def begin(self, snapshot: Mapping[str, Mapping[str, bytes]]) -> int:
        """Replace the whole mirror by ``snapshot`` (kind -> key -> record); returns its generation.

        Takes the mirror over from any other writer. Raises InvalidObject, MirrorLost when Redis was
        emptied meanwhile, Unreachable or Unavailable: call again.
        """
        for kind, objects in snapshot.items():
            for key, body in objects.items():
                _check(Change(kind, key, body))
        self._begins += 1
        self._epoch = f"{self._incarnation}.{self._begins}"
        for kind, objects in snapshot.items():
            await self._stage(kind, objects)
        return self._remember(await self._swap(snapshot))

    async def apply(self, changes: Sequence[Change]) -> int:
        """Write changes in order, at most 500 per step; returns the generation of the last one.

        Raises InvalidObject before anything is written; MirrorLost, Unreachable or Unavailable with
        a prefix of whole steps written: repeating all of ``changes`` is safe.
        """
        for change in changes:
            _check(change)
        for batch in _batches(changes):
            self._remember(await self._apply_batch(batch))
        return self._generation

    async def heartbeat(self) -> None:
        """Show that the writer lives and its watches are sound. Raises TransientError."""
        keys = [self._keys.epoch, self._keys.generation, self._keys.complete, self._keys.heartbeat]
        with redis_errors("write the mirror's heartbeat"):
            written = int(await self._heartbeat(keys=keys, args=[self._epoch]))
        if written < 0:
            raise MirrorLost("the mirror is gone or another writer began", epoch=self._epoch)

    async def _stage(self, kind: str, objects: Mapping[str, bytes]) -> None:
        staging = self._keys.staging(kind, self._epoch)
        with redis_errors("stage the mirror"):
            await self._redis.unlink(staging)
            for batch in _batches(list(objects.items())):
                pipeline = self._redis.pipeline(transaction=False)
                flat = itertools.chain.from_iterable(batch)
                pipeline.execute_command("HSET", staging, *flat)
                pipeline.execute_command("EXPIRE", staging, STAGING_SECONDS)
                await pipeline.execute()

    async def _swap(self, snapshot: Mapping[str, Mapping[str, bytes]]) -> int:
        names = self._keys
        keys = [names.epoch, names.generation, names.complete, names.heartbeat, names.kinds]
        keys.append(names.stream)
        arguments: list[str | int] = [self._epoch, self._generation, self._stream_limit]
        arguments.append(names.hash_prefix)
        for kind, objects in snapshot.items():
            keys += [names.staging(kind, self._epoch), names.objects(kind)]
            arguments += [kind, len(objects)]
        with redis_errors("begin the mirror"):
            return int(await self._commit(keys=keys, args=arguments))

    async def _apply_batch(self, batch: Sequence[Change]) -> int:
        kinds = list(dict.fromkeys(change.kind for change in batch))
        index = {kind: position for position, kind in enumerate(kinds, start=1)}
        names = self._keys
        keys = [names.epoch, names.generation, names.complete, names.kinds, names.stream]
        arguments: list[str | int | bytes] = [self._epoch, self._stream_limit, len(kinds), *kinds]
        for change in batch:
            op = OP_DELETE if change.body is None else OP_PUT
            arguments += [index[change.kind], change.key, op, change.body or b""]
        with redis_errors("write the mirror"):
            return int(await self._apply(keys=[*keys, *map(names.objects, kinds)], args=arguments))

    def _remember(self, generation: int) -> int:
        if generation < 0:
            raise MirrorLost("the mirror is gone or another writer began", epoch=self._epoch)
        # Kept across a FLUSHALL, so that generations of one writer never run backwards.
        self._generation = generation
        return generation


def _check(change: Change) -> None:
    if not change.kind or ":" in change.kind:
        raise InvalidObject("must be a name without a colon", field="kind")
    if not change.key:
        raise InvalidObject("must not be empty", field=f"{change.kind}.key")
    if change.body is not None and len(change.body) > BODY_LIMIT_BYTES:
        raise InvalidObject(
            f"record of {len(change.body)} bytes, at most {BODY_LIMIT_BYTES}",
            field=f"{change.kind}[{change.key}]",
        )


def _batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))
