"""The proxy in front of AWS: bytes pass both ways, and a cut strikes before a request or after its effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from simulation.chaos.proxy import Proxy


class Server:
    """Answers each request with it in capitals, and keeps what arrived."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            while data := await reader.read(100):
                self.received.append(data)
                writer.write(data.upper())
        writer.transport.abort()


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[Server, Proxy]]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    proxy = Proxy(listening.sockets[0].getsockname()[1])
    await proxy.start()
    try:
        yield server, proxy
    finally:
        await proxy.close()
        listening.close()


async def ask(proxy: Proxy, request: bytes) -> bytes:
    """The answer; empty when the connection ends without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(request)
        return await reader.read(100)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_requests_and_answers_pass() -> None:
    async with proxied() as (server, proxy):
        assert await ask(proxy, b"run") == b"RUN"
        assert server.received == [b"run"]


async def test_a_cut_before_the_request_has_no_effect() -> None:
    async with proxied() as (server, proxy):
        proxy.cut("before")
        assert await ask(proxy, b"run") == b""
        assert server.received == []
        assert await ask(proxy, b"again") == b"AGAIN"


async def test_a_cut_after_the_effect_loses_the_answer() -> None:
    async with proxied() as (server, proxy):
        proxy.cut("after")
        assert await ask(proxy, b"run") == b""
        assert server.received == [b"run"]
        assert await ask(proxy, b"again") == b"AGAIN"


async def test_nothing_passes_while_the_proxy_holds() -> None:
    async with proxied() as (_, proxy):
        proxy.hold(0.3)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(proxy, b"run")
        assert await ask(proxy, b"later") == b"LATER"


async def test_a_reset_ends_open_connections() -> None:
    async with proxied() as (_, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"run")
        assert await reader.read(100) == b"RUN"
        proxy.reset()
        with suppress(ConnectionResetError):  # or the end of the stream: both end the connection
            assert await reader.read(100) == b""
        writer.close()
