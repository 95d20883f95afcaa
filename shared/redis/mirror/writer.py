"""The writing side of the mirror: the watcher only.

``begin`` writes the whole snapshot to staging hashes and then swaps all of them in with one script, so a reader sees
the old mirror or the new one. ``apply`` changes hashes, generation and stream with one script. Each write carries a
heartbeat, with which readers verify their contents (``integrity``).

What may go wrong: FLUSHALL, foreign entries or another writer (MirrorLost: call ``begin`` with a fresh snapshot), a
lost answer (Unreachable: repeat the same changes, they are idempotent), Redis full (Unavailable: nothing was written).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from redis.asyncio import Redis

from shared.errors import InvalidObject
from shared.redis.bus.connection import redis_errors
from shared.redis.mirror.change import OP_DELETE, OP_PUT, Change, MirrorKeys, MirrorLost
from shared.redis.mirror.integrity import Contents, Digester, Heartbeat, Position, scripts, seal

_T = TypeVar("_T")

BATCH = 500
"""Most changes in one step, and fields in one HSET."""
STREAM_LIMIT = 100_000
BODY_LIMIT_BYTES = 1024 * 1024
"""Larger than any object that the API server stores, so that no real object is refused."""
STAGING_SECONDS = 600


class MirrorWriter:
    """Writes the mirror under ``prefix``. One per watcher that holds the lease."""

    def __init__(
        self,
        redis: Redis,
        prefix: str,
        epoch: str,
        *,
        key: str = "",
        stream_limit: int = STREAM_LIMIT,
    ) -> None:
        """``epoch`` is a random id of this writer's process; ``key`` is MIRROR_KEY, the same as the readers'."""
        self._redis = redis
        self._keys = MirrorKeys(prefix)
        self._incarnation = epoch
        self._digester = Digester(key)
        self._stream_limit = stream_limit
        self._begins = 0
        self._number = 0
        self._epoch = ""
        self._generation = 0
        self._contents = Contents()
        self._unsure: set[tuple[str, str]] = set()
        """Entries whose write was not confirmed: the mirror's contents are unknown until they are written again."""
        self._writing = asyncio.Lock()
        self._commit = redis.register_script(scripts.COMMIT)
        self._apply = redis.register_script(scripts.APPLY)
        self._heartbeat = redis.register_script(scripts.HEARTBEAT)

    async def begin(self, snapshot: Mapping[str, Mapping[str, bytes]]) -> int:
        """Replace the whole mirror with ``snapshot`` (kind -> key -> record); returns its generation.

        Takes the mirror over from any other writer. Raises InvalidObject; MirrorLost when Redis was
        emptied meanwhile, Unreachable or Unavailable: call again.
        """
        for kind, objects in snapshot.items():
            for key, body in objects.items():
                _check(Change(kind, key, body))
        async with self._writing:
            self._begins += 1
            self._epoch = f"{self._incarnation}.{self._begins}"
            self._contents, self._unsure = Contents(snapshot), set()
            for kind, objects in snapshot.items():
                await self._stage(kind, objects)
            generation = await self._swap(snapshot, self._generation + 1)
            if generation <= scripts.BEHIND:
                # Generations must grow for readers, so continue after the stored one of the previous writer.
                ahead = scripts.BEHIND - generation
                generation = await self._swap(snapshot, ahead + 1)
            return self._remember(generation)

    async def apply(self, changes: Sequence[Change]) -> int:
        """Write changes in order, at most 500 per step; returns the generation of the last one.

        Raises InvalidObject before anything is written; MirrorLost, Unreachable or Unavailable with
        a prefix of whole steps written: repeating all of ``changes`` is safe.
        """
        for change in changes:
            _check(change)
        async with self._writing:
            for batch in _batches(changes):
                self._remember(await self._apply_batch(batch))
                self._unsure -= {(change.kind, change.key) for change in batch}
            return self._generation

    async def heartbeat(self, positions: Mapping[str, Position] | None = None) -> bool:
        """Write a heartbeat with digests of the contents and the watch ``positions`` (by plural of the resource).

        False when a reader requested a rebuild of the mirror. Raises TransientError, and MirrorLost, also when another
        client added or removed entries.
        """
        async with self._writing:
            seal, known = self._sealed(self._generation, positions)
            names, counts = self._keys, self._contents.counts()
            keys = [names.epoch, names.generation, names.complete, names.heartbeat, names.stream]
            keys += [names.seal, names.heal, *map(names.objects, counts)]
            arguments = [self._epoch, known, seal, self._stream_limit, *counts.values()]
            async with redis_errors("write the mirror's heartbeat"):
                written = int(await self._heartbeat(keys=keys, args=arguments))
        if written == scripts.LOST:
            raise MirrorLost("the mirror is gone or another writer began", epoch=self._epoch)
        return written != scripts.REBUILD_REQUESTED

    def _sealed(
        self, generation: int, positions: Mapping[str, Position] | None = None
    ) -> tuple[bytes, int | str]:
        """A heartbeat and the generation that the mirror must be at; both empty while a write is not confirmed."""
        if self._unsure:
            return b"", ""
        self._number += 1
        contents = self._contents.digests(self._digester, self._epoch, generation)
        watched = None if positions is None else dict(positions)
        beat = Heartbeat(self._epoch, generation, self._number, contents, watched)
        return seal(beat, self._digester), self._generation

    async def _stage(self, kind: str, objects: Mapping[str, bytes]) -> None:
        staging = self._keys.staging(kind, self._epoch)
        async with redis_errors("stage the mirror"):
            await self._redis.unlink(staging)
        for batch in _batches(list(objects.items())):
            flat: list[str | bytes] = []
            for key, body in batch:
                flat += [key, self._stored(Change(kind, key, body))]
            async with redis_errors("stage the mirror"):
                pipeline = self._redis.pipeline(transaction=False)
                pipeline.execute_command("HSET", staging, *flat)
                pipeline.execute_command("EXPIRE", staging, STAGING_SECONDS)
                await pipeline.execute()

    def _stored(self, change: Change) -> bytes:
        """Add the change to ``_contents``; returns the value to store, which is its tag and its body."""
        body = change.body or b""
        digest = self._digester.entry(change.kind, change.key, body)
        if change.body is None:
            self._contents.delete(change.kind, change.key)
        else:
            self._contents.put(change.kind, change.key, digest.summand)
        return digest.tag + body

    async def _swap(self, snapshot: Mapping[str, Mapping[str, bytes]], generation: int) -> int:
        names = self._keys
        sealed, _ = self._sealed(generation)
        keys = [names.epoch, names.generation, names.complete, names.heartbeat, names.kinds]
        keys += [names.stream, names.seal]
        arguments: list[str | int | bytes] = [self._epoch, generation, self._stream_limit]
        arguments += [names.hash_prefix, sealed]
        for kind, objects in snapshot.items():
            keys += [names.staging(kind, self._epoch), names.objects(kind)]
            arguments += [kind, len(objects)]
        async with redis_errors("begin the mirror"):
            return int(await self._commit(keys=keys, args=arguments))

    async def _apply_batch(self, batch: Sequence[Change]) -> int:
        kinds = list(dict.fromkeys(change.kind for change in batch))
        index = {kind: position for position, kind in enumerate(kinds, start=1)}
        names = self._keys
        keys = [names.epoch, names.generation, names.complete, names.kinds, names.stream]
        changes: list[str | int | bytes] = []
        for change in batch:
            op = OP_DELETE if change.body is None else OP_PUT
            changes += [index[change.kind], change.key, op, self._stored(change)]
        sealed, known = self._sealed(self._generation + len(batch))
        self._unsure |= {(change.kind, change.key) for change in batch}
        arguments: list[str | int | bytes] = [self._epoch, known, sealed, self._stream_limit]
        arguments += [len(kinds), *kinds, *changes]
        async with redis_errors("write the mirror"):
            hashes = map(names.objects, kinds)
            return int(await self._apply(keys=[*keys, names.seal, *hashes], args=arguments))

    def _remember(self, generation: int) -> int:
        if generation < 0:
            self._unsure.clear()
            raise MirrorLost("the mirror is gone or another writer began", epoch=self._epoch)
        # The number is kept across a FLUSHALL, so that generations of one writer never run backwards.
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
