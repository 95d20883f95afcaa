"""The reading side of the mirror: scheduler, interruption, console.

A script loads all hashes at one generation together with the position in the stream; then the
stream is followed and every entry must carry the next generation. Anything else (a gap, a trimmed
stream, another epoch, keys that vanished) means: load again. A load reports to ``on_change`` only
what differs from before, so a listener stays right across it.

``complete`` is False until the first load and while the mirror is known to be lost; ``age`` grows
while the writer or the connection is silent. A reader that finds nothing keeps its last objects
for display and keeps trying.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from shared.bus.backoff import Backoff
from shared.bus.connection import REDIS_FAILURES, ask, connect, pairs, redis_errors
from shared.clock import Clock
from shared.errors import DovetailError, Unavailable
from shared.log import get_logger
from shared.mirror.change import OP_PUT, OP_RESET, Change, MirrorKeys

log = get_logger(__name__)

BLOCK_MILLISECONDS = 1000
READ_BATCH = 500
STATUS_SECONDS = 1.0
"""How often epoch, generation and heartbeat are compared."""

Objects = dict[str, dict[str, bytes]]
"""kind -> object key -> record."""

_LOAD = """
-- ARGV: epoch generation complete heartbeat kinds stream hash-prefix, then kinds or nothing. All keys are arguments:
-- Redis takes declared keys for written ones, and a reader may only read (shared.redis_rights).
if redis.call('EXISTS', ARGV[1], ARGV[2], ARGV[3]) < 3 then return false end
local time = redis.call('TIME')
local last = '0-0'
if redis.call('EXISTS', ARGV[6]) == 1 then
  local info = redis.call('XINFO', 'STREAM', ARGV[6])
  for i = 1, #info, 2 do if info[i] == 'last-generated-id' then last = info[i + 1] end end
end
local kinds = {unpack(ARGV, 8)}
if #kinds == 0 then kinds = redis.call('SMEMBERS', ARGV[5]) end
local hashes = {}
for i, kind in ipairs(kinds) do hashes[i] = redis.call('HGETALL', ARGV[7] .. kind) end
return {
  redis.call('MGET', ARGV[1], ARGV[2], ARGV[3], ARGV[4]),
  time[1] * 1000 + math.floor(time[2] / 1000), last, kinds, hashes}
"""


class MirrorReader:
    """Keeps ``kinds`` equal to the mirror while ``run`` runs. Read it, never change it."""

    def __init__(
        self,
        redis_url: str,
        prefix: str,
        *,
        clock: Clock,
        random: random.Random | None = None,
        on_change: Callable[[Change], None] | None = None,
        kinds: Collection[str] | None = None,
        block_milliseconds: int = BLOCK_MILLISECONDS,
    ) -> None:
        """``on_change`` is called after the change is in ``kinds``. ``kinds`` None means all.
        ``random`` spreads reconnects.

        Raises ConfigurationError for an unreadable URL.
        """
        self._redis = connect(redis_url, connections=2)
        self._keys = MirrorKeys(prefix)
        self._clock = clock
        self._random = random
        self._on_change = on_change
        self._wanted = sorted(kinds or ())
        self._block_milliseconds = block_milliseconds
        self._load_script = self._redis.register_script(_LOAD)
        self._loaded = False
        self._position = b"0-0"
        self._heartbeat: bytes | None = None
        self._heartbeat_at = -math.inf
        self._next_status = 0.0
        self._newest = 0
        self._advanced = asyncio.Event()
        self.kinds: Objects = {kind: {} for kind in self._wanted}
        self.generation = 0
        self.epoch = ""
        self.complete = False
        self.connected = False
        self.loads = 0
        self.last_progress = clock.monotonic()
        """Monotonic time of the last turn of the loop that Redis answered."""

    @property
    def behind(self) -> int:
        """How many changes the writer was ahead at the last comparison, at most a second ago."""
        return max(0, self._newest - self.generation)

    def age(self, now_monotonic: float) -> float:
        """Seconds since the writer's last heartbeat that was seen; infinite before the first."""
        return max(0.0, now_monotonic - self._heartbeat_at)

    async def wait_for(self, generation: int, timeout_seconds: float) -> None:
        """Return once the reader is at ``generation``. Raises Unavailable after the timeout."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not self.complete or self.generation < generation:
                    await self._advanced.wait()
        except TimeoutError as error:
            raise Unavailable(
                f"the mirror is at generation {self.generation}, not yet at {generation}"
            ) from error

    async def run(self, stop: asyncio.Event) -> None:
        """Load and follow until ``stop``. Outlives any failure of Redis."""
        backoff = Backoff(self._random)
        try:
            while not stop.is_set():
                try:
                    useful = await self._turn()
                except REDIS_FAILURES as error:
                    self._note_lost(error)
                    useful = False
                else:
                    self._note_connected()
                if useful:
                    backoff.reset()
                else:
                    await backoff.wait(stop)
        finally:
            await self._redis.aclose()

    async def _turn(self) -> bool:
        """One step. False when there is no mirror to load."""
        if not self._loaded:
            return await self._load()
        entries = await self._read()
        if not all(map(self._accept, entries)) or (not entries and self._newest > self.generation):
            self._loaded = False
        elif self._clock.monotonic() >= self._next_status:
            await self._compare()
        self._announce()
        return True

    async def _load(self) -> bool:
        names = self._keys
        keys = [names.epoch, names.generation, names.complete, names.heartbeat, names.kinds]
        arguments = [*keys, names.stream, names.hash_prefix, *self._wanted]
        with redis_errors("load the mirror"):
            reply = await self._load_script(args=arguments)
        if reply is None:
            self.complete = False
            return False
        status, server_milliseconds, position, kinds, hashes = reply
        objects = {
            kind.decode(): {key.decode(): body for key, body in pairs(flat).items()}
            for kind, flat in zip(kinds, hashes, strict=True)
        }
        self._position, self._loaded, self.complete = position, True, True
        self.epoch, self.generation = status[0].decode(), int(status[1])
        self.loads += 1
        self._note_status(status, server_milliseconds)
        self._replace(objects)
        self._announce()
        return True

    def _replace(self, objects: Objects) -> None:
        changes = list(difference(self.kinds, objects, self.generation))
        self.kinds = objects
        log.info(
            "mirror loaded", epoch=self.epoch, generation=self.generation, changes=len(changes)
        )
        if self._on_change is not None:
            for change in changes:
                self._on_change(change)

    async def _read(self) -> list[Any]:
        options = ("COUNT", READ_BATCH, "BLOCK", self._block_milliseconds, "STREAMS")
        reply = await ask(
            self._redis, "follow the mirror", "XREAD", *options, self._keys.stream, self._position
        )
        return reply[0][1] if reply else []

    def _accept(self, entry: Any) -> bool:
        """Take one entry over. False when the mirror must be loaded again."""
        self._position, fields = entry[0], pairs(entry[1])
        generation = int(fields.get(b"generation", -1))
        if generation != self.generation + 1 or fields[b"op"] == OP_RESET:
            return False
        self.generation = generation
        kind, key = fields[b"kind"].decode(), fields[b"key"].decode()
        if self._wanted and kind not in self._wanted:
            return True
        body = fields[b"body"] if fields[b"op"] == OP_PUT else None
        objects = self.kinds.setdefault(kind, {})
        if body is None:
            objects.pop(key, None)
        else:
            objects[key] = body
        if self._on_change is not None:
            self._on_change(Change(kind, key, body, generation))
        return True

    async def _compare(self) -> None:
        """Notice what the stream cannot tell: an emptied Redis, another epoch, a silent writer."""
        names = self._keys
        keys = (names.epoch, names.generation, names.complete, names.heartbeat)
        status = await ask(self._redis, "compare the mirror", "MGET", *keys)
        seconds, microseconds = await ask(self._redis, "read the clock", "TIME")
        lost = None in status[:3] or status[0].decode() != self.epoch
        if lost or int(status[1]) < self.generation:
            log.warning("mirror was lost or replaced", epoch=self.epoch, generation=self.generation)
            self._loaded = self.complete = False
            return
        self._note_status(status, int(seconds) * 1000 + int(microseconds) // 1000)

    def _note_status(self, status: list[bytes | None], server_milliseconds: int) -> None:
        now = self._clock.monotonic()
        self._next_status = now + STATUS_SECONDS
        self._newest = int(status[1] or 0)
        heartbeat = status[3]
        if heartbeat is None or heartbeat == self._heartbeat:
            return
        # Only the first value needs the server's clock; later ones are new because they differ.
        age_seconds = max(0, server_milliseconds - int(heartbeat)) / 1000
        self._heartbeat, self._heartbeat_at = heartbeat, now - age_seconds

    def _announce(self) -> None:
        self._advanced.set()
        self._advanced = asyncio.Event()

    def _note_lost(self, error: DovetailError) -> None:
        if self.connected or not self.loads:
            log.warning("mirror cannot be read, retrying", error=error.message)
        self.connected = False

    def _note_connected(self) -> None:
        self.connected = True
        self.last_progress = self._clock.monotonic()


def difference(
    old: Mapping[str, Mapping[str, bytes]], new: Mapping[str, Mapping[str, bytes]], generation: int
) -> Iterator[Change]:
    """The changes that lead from ``old`` to ``new``: deletes first, then puts, each sorted."""
    for kind in sorted(old):
        for key in sorted(old[kind].keys() - new.get(kind, {}).keys()):
            yield Change(kind, key, None, generation)
    for kind in sorted(new):
        before = old.get(kind, {})
        for key, body in sorted(new[kind].items()):
            if before.get(key) != body:
                yield Change(kind, key, body, generation)
