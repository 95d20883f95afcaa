"""The Redis in memory as a client of its protocol sees it, without a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from simulation.determinism import WALL_START_SECONDS
from simulation.servers.redis import REDIS_7, RedisServer
from tests.support.redis.agreement import packed


def real_time() -> float:
    """For ``RedisServer``: its wall clock is that of this machine."""
    return time.time() - WALL_START_SECONDS


class MemoryTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class MemoryServer:
    """One connection to a server in memory."""

    def __init__(
        self,
        server: RedisServer | None = None,
        *,
        loop_time: Callable[[], float] = real_time,
        version: tuple[int, ...] = REDIS_7,
    ) -> None:
        self.server = server or RedisServer(loop_time, version=version)
        self.transport = MemoryTransport()
        self._connection = self.server.connection()
        self._connection.connection_made(self.transport)

    def send(self, *words: bytes) -> None:
        """One command; ``received`` has its reply, later if it blocks."""
        self._connection.data_received(packed(words))

    def received(self) -> bytes:
        """What has arrived since the last call."""
        found = bytes(self.transport.written)
        self.transport.written.clear()
        return found

    def ask(self, *words: bytes) -> bytes:
        """One command and the bytes of its reply."""
        self.send(*words)
        return self.received()

    def close(self) -> None:
        """The client goes."""
        self._connection.connection_lost(None)
