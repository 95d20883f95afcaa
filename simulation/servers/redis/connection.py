"""One client: requests in, replies out, transactions and blocked reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import hiredis

from simulation.servers.redis.commands.reading import Blocked, Read
from simulation.servers.redis.engine import OUT_OF_MEMORY
from simulation.servers.redis.resp import (
    NULL_ARRAY,
    OK,
    QUEUED,
    CommandError,
    Reply,
    encoded,
)

if TYPE_CHECKING:
    from simulation.servers.redis.server import RedisServer


class Connection(asyncio.Protocol):
    """Made by the server for each client. Requests wait in ``_reader`` while the client is blocked."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._queued: list[list[bytes]] | None = None
        """The commands of an open transaction."""
        self._broken = False
        """A command of the transaction was refused, so EXEC refuses all."""
        self._cut = False
        """By the server: the requests that are left are lost. Those of a client that has gone are executed."""
        self._timer: asyncio.TimerHandle | None = None
        self.waits: Read | None = None
        """What a blocked client waits for."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.join(self)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._server.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.wake()
        self._server.leave(self)

    # For the server

    def abort(self) -> None:
        """Cut the connection."""
        self._cut = True
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def work(self) -> None:
        """Execute the requests that have arrived, up to one that blocks."""
        replies: list[bytes] = []
        while self.waits is None and not self._cut:
            try:
                words = self._reader.gets()
            except hiredis.ProtocolError as error:
                replies.append(encoded(CommandError(f"ERR {error}")))
                self._send(replies)
                self._close()
                return
            if words is False:
                break
            reply = self._answer(words)
            if isinstance(reply, Blocked):
                self._block(reply.read)
            else:
                replies.append(encoded(reply))
            # Blocked clients are served before the next command, so that replies keep the order of the commands.
            self._server.serve_waiting()
        self._send(replies)

    def reply(self, reply: Reply) -> None:
        """Answer a client that was blocked, and go on with its next requests."""
        self.wake()
        self._send([encoded(reply)])
        self.work()

    def wake(self) -> None:
        """Wait no longer."""
        if self.waits is not None:
            self._server.no_longer_waits(self)
            self.waits = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Parts

    def _send(self, replies: list[bytes]) -> None:
        if replies and self._transport is not None:
            self._transport.write(b"".join(replies))

    def _close(self) -> None:
        self._cut = True
        if self._transport is not None:
            self._transport.close()

    def _block(self, read: Read) -> None:
        if self._transport is None:
            self._cut = True
            return
        self.waits = read
        self._server.waits(self)
        if read.block:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(read.block / 1000, self._time_out)

    def _time_out(self) -> None:
        stalled = self._server.stalled_seconds()
        if stalled > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(stalled, self._time_out)
        else:
            self.reply(NULL_ARRAY)

    def _answer(self, words: list[bytes]) -> Reply:
        own = _OWN.get(words[0].upper())
        if own is not None:
            return own(self, words)
        try:
            self._server.engine.check(words, queues=self._queued is not None)
            if self._queued is not None:
                self._queued.append(words)
                return QUEUED
            self._server.db.begin()
            return self._server.engine.execute(words)
        except CommandError as error:
            self._broken = self._queued is not None
            return error

    def _multi(self, words: list[bytes]) -> Reply:
        if self._queued is not None:
            if self._server.engine.out_of_memory:
                self._broken = True
                return CommandError(OUT_OF_MEMORY)
            return CommandError("ERR MULTI calls can not be nested")
        self._queued, self._broken = [], False
        return OK

    def _discard(self, words: list[bytes]) -> Reply:
        if self._queued is None:
            return CommandError("ERR DISCARD without MULTI")
        self._queued = None
        return OK

    def _exec(self, words: list[bytes]) -> Reply:
        if self._queued is None:
            return CommandError("ERR EXEC without MULTI")
        queued, self._queued = self._queued, None
        if self._broken:
            return CommandError("EXECABORT Transaction discarded because of previous errors.")
        try:
            self._server.engine.check_transaction(queued)
        except CommandError as error:
            return error
        return [self._in_transaction(words) for words in queued]

    def _in_transaction(self, words: list[bytes]) -> Reply:
        try:
            self._server.db.begin()
            reply = self._server.engine.execute(words)
        except CommandError as error:
            return error
        return NULL_ARRAY if isinstance(reply, Blocked) else reply


_OWN = {
    b"MULTI": Connection._multi,
    b"EXEC": Connection._exec,
    b"DISCARD": Connection._discard,
}
