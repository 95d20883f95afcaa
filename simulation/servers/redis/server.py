"""The server: connections, blocked readers, faults, and direct reads for invariants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from simulation.determinism import WALL_START_SECONDS
from simulation.servers.redis.commands.reading import Read
from simulation.servers.redis.connection import Connection
from simulation.servers.redis.engine import Engine, OnCommand
from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.resp import NULL_ARRAY, CommandError, Reply
from simulation.servers.redis.values.stream import HIGHEST, LOWEST, Stream

_NO_GROUP = "NOGROUP the consumer group this client was blocked on no longer exists"
_NO_STREAM = "UNBLOCKED the stream key no longer exists"

REDIS_6, REDIS_7 = (6, 2, 20), (7, 0, 15)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a stream."""

    id: str
    fields: dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class PendingEntry:
    """One delivery that is not acknowledged. ``delivered_at``: seconds since the epoch."""

    id: str
    consumer: str
    delivered_at: float
    deliveries: int


class RedisServer:
    """``connection`` is the protocol factory for ``loop.create_server``.

    ``loop_time`` is that of the loop. ``on_command`` gets each command of ``engine.REPORTED`` that changed something:
    the name in lower case and the arguments, the stream's key first. ``version`` is REDIS_7 or REDIS_6.
    """

    def __init__(
        self,
        loop_time: Callable[[], float],
        *,
        on_command: OnCommand | None = None,
        version: tuple[int, ...] = REDIS_7,
    ) -> None:
        self._loop_time = loop_time
        self.db = Keyspace(lambda: WALL_START_SECONDS + loop_time(), version)
        self.engine = Engine(self.db, on_command)
        self._connections: dict[Connection, None] = {}
        self._waiting: dict[Connection, Read] = {}
        """Blocked clients, the one that waits longest first."""
        self._held: dict[Connection, None] = {}
        """Clients whose requests arrived while the server was stalled."""
        self._stalled_until = float("-inf")
        self._down_until = float("-inf")
        self._serving = False

    def connection(self) -> Connection:
        """The protocol of a new connection."""
        return Connection(self)

    # Faults

    def restart(self, *, keep_data: bool, down_seconds: float = 0.0) -> None:
        """Lose all connections and scripts, and the data too unless ``keep_data``.

        For ``down_seconds`` every new connection is cut at once.
        """
        self._stalled_until = float("-inf")
        self._down_until = self._loop_time() + down_seconds
        self._cut()
        if not keep_data:
            self.db.begin()
            self.db.clear()
            self.db.ready.clear()

    def fail_over(self, lost_seconds: float) -> None:
        """A replica takes over that lacks the writes of the last ``lost_seconds``, at most ``UNDO_SECONDS``."""
        self._cut()
        self.db.take_back(lost_seconds)

    def flush(self) -> None:
        """Delete all keys; connections and scripts stay."""
        self.db.begin()
        self.db.clear()
        self.serve_waiting()

    def stall(self, seconds: float) -> None:
        """Accept requests and answer them after ``seconds``."""
        self._stalled_until = max(self._stalled_until, self._loop_time() + seconds)
        asyncio.get_running_loop().call_later(seconds, self._resume)

    def set_out_of_memory(self, full: bool) -> None:
        """Refuse commands that need memory."""
        self.engine.out_of_memory = full

    def set_disk_full(self, full: bool) -> None:
        """Refuse all writes, as a server that cannot save."""
        self.engine.disk_full = full

    def _cut(self) -> None:
        self.engine.scripts.forget()
        self._held.clear()
        self._waiting.clear()
        for connection in list(self._connections):
            connection.abort()

    # Direct reads

    def execute(self, *words: str | int) -> Reply:
        """The reply to one command of an observer, outside any connection. Raises CommandError."""
        self.db.begin()
        return self.engine.execute([str(word).encode() for word in words])

    def keys(self, prefix: str = "") -> list[str]:
        """The names of the keys that begin with ``prefix``, sorted."""
        names = (key.decode(errors="replace") for key in self.db)
        return sorted(name for name in names if name.startswith(prefix))

    def get(self, key: str) -> bytes | None:
        """The value of a string; None for any other key and for none."""
        value = self.db.any(key.encode())
        return value if isinstance(value, bytes) else None

    def hash(self, key: str) -> dict[bytes, bytes]:
        """The fields of a hash, sorted; empty for any other key and for none."""
        value = self.db.any(key.encode())
        return dict(sorted(value.items())) if isinstance(value, dict) else {}

    def members(self, key: str) -> dict[bytes, float]:
        """The scores of a sorted set by member, by rank; empty for any other key and for none."""
        ordered = getattr(self.db.any(key.encode()), "ordered", ())
        return {member: score for score, member in ordered}

    def streams(self) -> list[str]:
        """The names of the streams, sorted."""
        return [name for name in self.keys() if self._stream(name) is not None]

    def length(self, stream: str) -> int:
        """How many entries the stream has."""
        found = self._stream(stream)
        return found.length if found else 0

    def entries(self, stream: str, after: str = "") -> list[Entry]:
        """The entries in order, those above the id ``after`` only."""
        found = self._stream(stream)
        if found is None:
            return []
        low = LOWEST if not after else type(LOWEST)(*map(int, after.split("-"))).after()
        return [
            Entry(entry_id.text().decode(), dict(zip(fields[::2], fields[1::2], strict=True)))
            for entry_id, fields in found.range(low, HIGHEST)
        ]

    def groups(self, stream: str) -> list[str]:
        """The names of the stream's consumer groups, sorted."""
        found = self._stream(stream)
        return sorted(name.decode() for name in found.groups) if found else []

    def pending(self, stream: str, group: str) -> list[PendingEntry]:
        """The entries that the group has received and not acknowledged, in order of their ids."""
        found = self._stream(stream)
        held = found.groups.get(group.encode()) if found else None
        if held is None:
            return []
        return [
            PendingEntry(
                entry_id.text().decode(),
                one.consumer.decode(),
                one.delivered / 1000,
                one.deliveries,
            )
            for entry_id, one in sorted(held.pending.items())
        ]

    def unread(self, stream: str, group: str) -> int:
        """How many entries no consumer of the group has received; all of them without the group."""
        found = self._stream(stream)
        if found is None:
            return 0
        held = found.groups.get(group.encode())
        return sum(1 for _ in found.range(held.last.after() if held else LOWEST, HIGHEST))

    def is_settled(self, stream: str, group: str, entry_id: str) -> bool:
        """Whether the group has received and acknowledged the entry, which may be gone; False without the group."""
        found = self._stream(stream)
        held = found.groups.get(group.encode()) if found else None
        if held is None:
            return False
        asked = type(LOWEST)(*map(int, entry_id.split("-")))
        return asked <= held.last and asked not in held.pending

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def _stream(self, name: str) -> Stream | None:
        value = self.db.any(name.encode())
        return value if isinstance(value, Stream) else None

    # For connections

    def join(self, connection: Connection) -> None:
        """A client has connected."""
        if self._loop_time() < self._down_until:
            connection.abort()
        else:
            self._connections[connection] = None

    def leave(self, connection: Connection) -> None:
        """A client has gone."""
        self._connections.pop(connection, None)

    def arrived(self, connection: Connection) -> None:
        """Bytes have arrived from a client."""
        if self.stalled_seconds() > 0:
            self._held[connection] = None
        else:
            connection.work()

    def stalled_seconds(self) -> float:
        """How long the server will still not answer."""
        return max(0.0, self._stalled_until - self._loop_time())

    def _resume(self) -> None:
        if self.stalled_seconds() > 0:
            return
        held, self._held = self._held, {}
        for connection in held:
            connection.work()

    def waits(self, connection: Connection) -> None:
        """A client blocks."""
        if connection.waits is not None:
            self._waiting[connection] = connection.waits

    def no_longer_waits(self, connection: Connection) -> None:
        """A client is served, timed out or gone."""
        self._waiting.pop(connection, None)

    def serve_waiting(self) -> None:
        """Answer the blocked clients whose streams have changed. Their next requests may change others."""
        if self._serving:
            return
        self._serving = True
        try:
            while self.db.ready:
                ready, self.db.ready = self.db.ready, []
                if self._waiting:
                    self._serve(dict.fromkeys(ready))
        finally:
            self._serving = False

    def _serve(self, ready: dict[bytes, None]) -> None:
        for connection, read in list(self._waiting.items()):
            if connection not in self._waiting or not any(key in ready for key, _ in read.after):
                continue
            self.db.begin()
            gone = self._what_is_gone(read)
            try:
                reply = CommandError(gone) if gone else read.run(self.db, woken=True)
            except CommandError:
                continue
            if reply is not NULL_ARRAY:
                connection.reply(reply)

    def _what_is_gone(self, read: Read) -> str:
        """Why a group's reader waits in vain; empty while it does not. A reader without a group goes on waiting."""
        for key, _ in read.after if read.group is not None else ():
            stream = self.db.any(key)
            if not isinstance(stream, Stream):
                # Redis 6.2 lets its client wait for a stream of that name.
                return "" if self.db.is_redis_6 else _NO_STREAM
            if read.group not in stream.groups:
                return _NO_GROUP
        return ""
