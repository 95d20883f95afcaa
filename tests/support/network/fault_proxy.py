"""A TCP proxy with the faults of a network: replies that are lost, nobody who answers, connections that are half open
(F8, F15).
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

REQUEST = re.compile(rb"[A-Z]{3,7} (\S+) HTTP/1\.1\r\n")
"""How an HTTP request begins. Clients send the next one after the answer: a chunk holds one beginning at most."""


@dataclass
class Connection:
    """One client and what it asks for."""

    target: str = ""
    """Path and query of its latest HTTP request; empty for other protocols."""
    half_open: bool = False
    """For ever: a network that forgot a connection does not remember it when it works again."""


class FaultProxy:
    """Listens on a free loopback port in front of ``target_port``."""

    def __init__(self, target_port: int, *, loss: float = 0.0, seed: int = 0) -> None:
        """``loss`` is the chance that one chunk of reply is lost together with its connection."""
        self._target_port = target_port
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._stalls: Callable[[str], bool] | None = None
        self.loss = loss
        self.refuses = False
        """Nobody is there: no request arrives."""
        self.cuts = 0
        self.half_open = 0
        """Connections that came to be so."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()
        await self._server.wait_closed()

    def go_away(self) -> None:
        """Drop every connection, and take no new one until ``come_back``."""
        self.refuses = True
        self.cut_all()

    def stall(self, targets: Callable[[str], bool]) -> None:
        """No byte passes any more, in either direction, on connections whose latest request is one of ``targets``; they
        stay open. So it is with new ones until ``come_back``.
        """
        self._stalls = targets

    def come_back(self) -> None:
        """New connections work. Those that are half open stay so."""
        self.refuses, self._stalls = False, None

    def cut_all(self) -> None:
        """Drop every connection now."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.refuses:
            back.transport.abort()
            return
        try:
            server, forward = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            back.transport.abort()
            return
        self._writers |= {back, forward}
        connection = Connection()
        await asyncio.gather(
            self._requests(connection, client, forward), self._replies(connection, server, back)
        )
        back.close()
        self._writers -= {back, forward}

    async def _requests(
        self, connection: Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while chunk := await source.read(65536):
                if begins := REQUEST.match(chunk):
                    connection.target = begins[1].decode()
                if not self._lost(connection):
                    sink.write(chunk)
                    await sink.drain()
        sink.close()

    async def _replies(
        self, connection: Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while chunk := await source.read(65536):
                if self._lost(connection):
                    continue
                if self._random.random() < self.loss:
                    self.cuts += 1
                    sink.transport.abort()
                    return
                sink.write(chunk)
                await sink.drain()
        if not connection.half_open:  # else its end is lost as well
            sink.close()

    def _lost(self, connection: Connection) -> bool:
        if self._stalls and not connection.half_open and self._stalls(connection.target):
            connection.half_open = True
            self.half_open += 1
        return connection.half_open
