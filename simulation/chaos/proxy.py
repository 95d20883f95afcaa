"""A TCP proxy whose connections can be cut before a request, after its effect, and be held up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

CHUNK_BYTES = 65_536


class Proxy:
    """Forwards connections from ``port`` to ``target`` on loopback."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.delay_seconds = 0.0
        self._open: set[asyncio.StreamWriter] = set()
        self._cut: Literal["", "before", "after"] = ""
        self._passes = asyncio.Event()
        self._passes.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._server: asyncio.Server

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self, when: Literal["before", "after"]) -> None:
        """The next request loses its connection before it arrives, or its answer is lost."""
        self._cut = when

    def hold(self, seconds: float) -> None:
        """Nothing passes for ``seconds``."""
        self._passes.clear()
        asyncio.get_running_loop().call_later(seconds, self._passes.set)

    def delay(self, delay_seconds: float, seconds: float) -> None:
        """Everything takes longer for ``seconds``."""
        self.delay_seconds = delay_seconds
        asyncio.get_running_loop().call_later(seconds, setattr, self, "delay_seconds", 0.0)

    def reset(self) -> None:
        """Close every connection."""
        for writer in list(self._open):
            writer.transport.abort()

    async def close(self) -> None:
        """End everything; returns when no connection is left."""
        self._server.close()
        self.reset()
        await self._idle.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            self._open |= {writer, back}
            self._idle.clear()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, back, writer, "before"))
                    group.create_task(self._pump(there, writer, back, "after"))
            except* OSError:
                pass
            finally:
                self._open -= {writer, back}
                writer.transport.abort()
                back.transport.abort()
                if not self._open:
                    self._idle.set()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other: asyncio.StreamWriter,
        when: str,
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._passes.wait()
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            if self._cut == when:
                self._cut = ""
                writer.transport.abort()
                other.transport.abort()
                return
            writer.write(data)
            await writer.drain()
        writer.transport.abort()
