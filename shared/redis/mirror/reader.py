"""The reading side of the mirror: scheduler, interruption, console.

A script loads all hashes at one generation together with the position in the stream; then the
reader follows the stream, where every entry must carry the next generation. After anything else (a
gap, a trimmed stream, another epoch, missing keys) it loads again. A load reports only the
differences to ``on_change``, so a listener's state stays correct across it.

``complete`` is False until the first load and while the mirror is known to be lost; ``age`` grows while the writer or
the connection is silent. A reader that finds no mirror keeps its last objects for display and retries.

Every client of Redis may be able to write there. Entries that the writer did not make never get
into ``kinds``, and ``doubt`` gives the reason why ``kinds`` may not be acted on now (``integrity``).
A reader whose contents differ from the writer's requests that the mirror is written anew.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from shared.concurrency.clock import Clock, SteadyTime
from shared.concurrency.waiting import run_until
from shared.errors import DovetailError, Unavailable
from shared.log import get_logger
from shared.redis.bus.connection import (
    REDIS_FAILURES,
    blocking_call,
    call,
    connect,
    pairs,
    reconnect_pauses,
    redis_errors,
)
from shared.redis.mirror.bodies import Bodies
from shared.redis.mirror.change import OP_DELETE, OP_HEARTBEAT, OP_PUT, Change, MirrorKeys
from shared.redis.mirror.integrity import Position, Verification

log = get_logger(__name__)

BLOCK_MILLISECONDS = 2500
"""The writer's heartbeats come every 2 s: a read that ends without an entry is a sign that something is wrong."""
READ_BATCH = 500
STATUS_SECONDS = 1.0
"""Shortest interval of the comparisons of epoch and generation while the stream is silent."""
FLOWING_STATUS_SECONDS = 5.0
"""The same while entries arrive: each shows that the mirror is there, and which generation it has."""
REBUILD_REQUEST_SECONDS = 5.0
"""Shortest interval between two requests to write the mirror anew."""

Objects = dict[str, Bodies]
"""kind -> object key -> record."""

_LOAD = """
-- ARGV: epoch generation complete heartbeat kinds stream hash-prefix seal, then kinds or nothing. All keys are
-- arguments: Redis treats declared keys as written ones, and a reader may only read (shared.redis.rights).
if redis.call('EXISTS', ARGV[1], ARGV[2], ARGV[3]) < 3 then return false end
local time = redis.call('TIME')
local last = '0-0'
if redis.call('EXISTS', ARGV[6]) == 1 then
  local info = redis.call('XINFO', 'STREAM', ARGV[6])
  for i = 1, #info, 2 do if info[i] == 'last-generated-id' then last = info[i + 1] end end
end
local kinds = {unpack(ARGV, 9)}
if #kinds == 0 then kinds = redis.call('SMEMBERS', ARGV[5]) end
local hashes = {}
for i, kind in ipairs(kinds) do hashes[i] = redis.call('HGETALL', ARGV[7] .. kind) end
return {
  redis.call('MGET', ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[8]),
  time[1] * 1000 + math.floor(time[2] / 1000), last, kinds, hashes}
"""


class MirrorReader:
    """Keeps ``kinds`` equal to the mirror while ``run`` runs. Callers read ``kinds`` and never change it."""

    def __init__(
        self,
        redis_url: str,
        prefix: str,
        *,
        clock: Clock,
        random: random.Random | None = None,
        on_change: Callable[[Change], None] | None = None,
        kinds: Collection[str] | None = None,
        key: str = "",
        on_rejected: Callable[[], None] | None = None,
        block_milliseconds: int = BLOCK_MILLISECONDS,
    ) -> None:
        """``on_change`` is called after the change is in ``kinds``. ``kinds`` None means all.
        ``random`` spreads reconnects. ``key`` is the writer's (MIRROR_KEY).
        ``on_rejected`` is called for each entry or heartbeat that the writer did not write.

        Raises ConfigurationError for an unreadable URL.
        """
        self._redis = connect(redis_url, prefix=prefix, connections=2)
        self._keys = MirrorKeys(prefix)
        self._clock = clock
        self._random = random
        self._on_change = on_change
        self._wanted = sorted(kinds or ())
        self._block_milliseconds = block_milliseconds
        self._load_script = self._redis.register_script(_LOAD)
        self._loaded = False
        self._position = b"0-0"
        self._verification = Verification(key, self._wanted, on_rejected)
        self._heartbeat_at = -math.inf
        self._compared_at = -math.inf
        self._next_request = -math.inf
        self._doubted_at: float | None = clock.monotonic()
        self._newest = 0
        self._advanced = asyncio.Event()
        self.kinds: Objects = {kind: Bodies({}) for kind in self._wanted}
        self.generation = 0
        self.epoch = ""
        self.complete = False
        self.connected = False
        self.loads = 0
        self.last_progress = clock.monotonic()
        """Monotonic time of the last pass of the loop that Redis answered."""
        self.server_time: SteadyTime | None = None
        """The time by the clock of Redis at the last comparison; None before the first load."""

    def bodies(self, kind: str) -> Mapping[str, bytes]:
        """Key -> record of one kind; empty for a kind that the mirror does not have."""
        found = self.kinds.get(kind)
        return {} if found is None else found

    @property
    def behind(self) -> int:
        """Changes by which the writer was ahead at the last comparison, at most some seconds ago."""
        return max(0, self._newest - self.generation)

    def age(self, now_monotonic: float) -> float:
        """Seconds since the last heartbeat of the writer arrived; infinite before the first."""
        return max(0.0, now_monotonic - self._heartbeat_at)

    @property
    def doubt(self) -> str:
        """The reason why ``kinds`` may not be acted on, although it may be complete; empty when it is verified."""
        return self._verification.doubt

    def doubtful_seconds(self, now_monotonic: float) -> float:
        """Seconds since ``doubt`` was last empty; 0.0 while it is empty."""
        if not self.doubt or self._doubted_at is None:
            return 0.0
        return max(0.0, now_monotonic - self._doubted_at)

    @property
    def rejected(self) -> int:
        """Entries and heartbeats that the writer did not write, since the start."""
        return self._verification.rejected

    def position(self, plural: str, now_monotonic: float) -> Position | None:
        """The watch position of this resource, with ``seconds`` as of now; None while the writer reported none."""
        position = self._verification.positions.get(plural)
        if position is None:
            return None
        since = max(0.0, now_monotonic - self._verification.positions_at)
        return msgspec.structs.replace(position, seconds=position.seconds + since)

    def has_reached(self, plural: str, version: str) -> bool:
        """Whether ``kinds`` holds every change of this resource up to ``version``."""
        position = self._verification.positions.get(plural)
        return position is not None and position.reached(version)

    def watched(self) -> list[str]:
        """Plurals of the resources whose position the writer reported."""
        return sorted(self._verification.positions)

    async def wait_until_verified(self, timeout_seconds: float) -> bool:
        """Wait until ``doubt`` is empty; False after the timeout."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not self.complete or self.doubt:
                    await self._advanced.wait()
        except TimeoutError:
            return False
        return True

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
        """Load and follow until ``stop``. Failures of Redis are retried for ever."""
        try:
            await run_until(stop, self._follow())
        finally:
            await self._redis.aclose()

    async def _follow(self) -> None:
        backoff = reconnect_pauses(self._random)
        while True:
            try:
                useful = await self._step()
            except REDIS_FAILURES as error:
                self._note_disconnected(error)
                useful = False
            else:
                self._note_connected()
            if useful:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next())

    async def _step(self) -> bool:
        """One step. False when there is no mirror to load."""
        if not self._loaded:
            return await self._load()
        entries = await self._read()
        if not all(map(self._accept, entries)) or (not entries and self._newest > self.generation):
            self._loaded = False
        elif self._verification.contradicted:
            self._loaded = False  # a forged stream entry is possible while the hashes are right
        elif self._clock.monotonic() >= self._compared_at + (
            FLOWING_STATUS_SECONDS if entries else STATUS_SECONDS
        ):
            await self._compare()
        self._announce()
        return True

    async def _load(self) -> bool:
        names = self._keys
        keys = [names.epoch, names.generation, names.complete, names.heartbeat, names.kinds]
        arguments = [*keys, names.stream, names.hash_prefix, names.seal, *self._wanted]
        async with redis_errors("load the mirror"):
            reply = await self._load_script(args=arguments)
        if reply is None:
            self.complete = False
            return False
        status, server_milliseconds, position, kinds, hashes = reply
        values = {
            _text(kind): {_text(key): value for key, value in pairs(flat).items()}
            for kind, flat in zip(kinds, hashes, strict=True)
        }
        self.server_time = SteadyTime(self._clock.monotonic(), server_milliseconds / 1000)
        self._position, self._loaded, self.complete = position, True, True
        self.epoch, self.generation = _text(status[0]), _number(status[1])
        self.loads += 1
        self._note_status(status)
        if status[3] is not None:
            age_seconds = max(0, server_milliseconds - _number(status[3])) / 1000
            self._heartbeat_at = self._clock.monotonic() - age_seconds
        self._replace(
            self._verification.load(values, self.epoch, self.generation, status[4] or b"")
        )
        self._announce()
        if self._verification.contradicted:
            await self._request_rebuild()
        return True

    def _replace(self, objects: Mapping[str, Mapping[str, bytes]]) -> None:
        changes = list(difference(self.kinds, objects, self.generation))
        self.kinds = {kind: Bodies(records) for kind, records in objects.items()}
        log.info(
            "mirror loaded", epoch=self.epoch, generation=self.generation, changes=len(changes)
        )
        if self._on_change is not None:
            for change in changes:
                self._on_change(change)

    async def _read(self) -> list[Any]:
        options = ("COUNT", READ_BATCH, "BLOCK", self._block_milliseconds, "STREAMS")
        command = ("XREAD", *options, self._keys.stream, self._position)
        reply = await blocking_call(
            self._redis, "follow the mirror", self._block_milliseconds, *command
        )
        return reply[0][1] if reply else []

    def _accept(self, entry: Any) -> bool:
        """Apply one entry of the stream. False when the mirror must be loaded again."""
        self._position, fields = entry[0], pairs(entry[1])
        generation, op = _number(fields.get(b"generation")), fields.get(b"op")
        if op == OP_HEARTBEAT:
            self._take_heartbeat(fields)
            return generation <= self.generation
        if generation != self.generation + 1 or op not in (OP_PUT, OP_DELETE):
            return False
        if self._take(fields, op == OP_PUT, generation):
            self.generation = generation
            self._verification.moved(generation)
            if b"seal" in fields:
                self._take_heartbeat(fields)
        return True

    def _take(self, fields: Mapping[bytes, bytes], put: bool, generation: int) -> bool:
        """Apply one change. False, and nothing is changed, for a change that the writer did not write."""
        kind, key = _text(fields.get(b"kind", b"")), _text(fields.get(b"key", b""))
        if self._wanted and kind not in self._wanted:
            return True
        value, body = fields.get(b"body", b""), None
        if put:
            body = self._verification.put(kind, key, value)
        if body is None and (put or not self._verification.delete(kind, key, value)):
            return False
        objects = self.kinds.setdefault(kind, Bodies({}))
        if body is None:
            objects.pop(key)
        else:
            objects[key] = body
        if self._on_change is not None:
            self._on_change(Change(kind, key, body, generation))
        return True

    def _take_heartbeat(self, fields: Mapping[bytes, bytes]) -> None:
        now = self._clock.monotonic()
        if self._verification.take_heartbeat(fields.get(b"seal", b""), now=now):
            self._heartbeat_at = now

    async def _compare(self) -> None:
        """Detect what the stream does not show: an emptied Redis, another epoch."""
        names = self._keys
        keys = (names.epoch, names.generation, names.complete)
        status = await call(self._redis, "compare the mirror", "MGET", *keys)
        lost = None in status or _text(status[0]) != self.epoch
        if lost or _number(status[1]) < self.generation:
            log.warning("mirror was lost or replaced", epoch=self.epoch, generation=self.generation)
            self._loaded = self.complete = False
            return
        seconds, microseconds = await call(self._redis, "compare the clocks", "TIME")
        at = int(seconds) + int(microseconds) / 1e6
        self.server_time = SteadyTime(self._clock.monotonic(), at)
        self._note_status(status)

    def _note_status(self, status: list[bytes | None]) -> None:
        self._compared_at = self._clock.monotonic()
        self._newest = _number(status[1])

    async def _request_rebuild(self) -> None:
        """The contents were loaded again and still differ from the writer's: request a new mirror."""
        self._verification.contradicted = False  # until the next heartbeat shows a difference again
        now = self._clock.monotonic()
        if now < self._next_request:
            return
        self._next_request = now + REBUILD_REQUEST_SECONDS
        log.warning("requesting a rebuild of the mirror", reason=self.doubt)
        try:
            await call(self._redis, "request a rebuild", "SET", self._keys.heal, "1", "EX", 60)
        except DovetailError as error:
            # This reader may have no right to write; the watcher itself detects missing and surplus entries.
            log.warning("cannot request a rebuild of the mirror", error=error.message)

    def _announce(self) -> None:
        if not self.doubt:
            self._doubted_at = None
        elif self._doubted_at is None:
            self._doubted_at = self._clock.monotonic()
        self._advanced.set()
        self._advanced = asyncio.Event()

    def _note_disconnected(self, error: DovetailError) -> None:
        if self.connected or not self.loads:
            log.warning("mirror cannot be read, retrying", error=error.message)
        self.connected = False

    def _note_connected(self) -> None:
        self.connected = True
        self.last_progress = self._clock.monotonic()


def _text(name: bytes) -> str:
    """The text of a key; another client may have written bytes that are not UTF-8."""
    return name.decode(errors="replace")


def _number(text: bytes | None) -> int:
    """The number; -1 for an absent or unreadable one."""
    try:
        return int(text or -1)
    except ValueError:
        return -1


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
