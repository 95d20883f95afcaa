"""A TCP proxy that loses replies: it forwards a request, then cuts the connection before the
answer (reliability F8).
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from types import TracebackType
from typing import Self


class FaultProxy:
    """Listens on a free loopback port in front of ``target_port``."""

    def __init__(self, target_port: int, *, loss: float, seed: int) -> None:
        """``loss`` is the chance that one chunk of reply is lost together with its connection."""
        self._target_port = target_port
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.loss = loss
        self.refuses = False
        """Nobody is there: no request arrives."""
        self.cuts = 0
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
        """Drop every connection, and take no new one until ``refuses`` is False again."""
        self.refuses = True
        self.cut_all()

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
        await asyncio.gather(self._pump(client, forward), self._pump(server, back, lossy=True))
        self._writers -= {back, forward}

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, lossy: bool = False
    ) -> None:
        with suppress(OSError):
            while chunk := await source.read(65536):
                if lossy and self._random.random() < self.loss:
                    self.cuts += 1
                    sink.transport.abort()
                    return
                sink.write(chunk)
                await sink.drain()
        sink.close()
