"""The status pages of services on a free port, and clients of them: honest ones, and sockets that say too little."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from shared.runtime.services import Loop


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@asynccontextmanager
async def running(loop: Loop, *ports: int) -> AsyncIterator[None]:
    """The loop, from when it answers on all ``ports`` until the block ends."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(loop.run(stop))
        try:
            for port in ports:
                await answering(port)
            yield
        finally:
            stop.set()


async def answering(port: int) -> None:
    """Return once somebody listens there."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return


@asynccontextmanager
async def held(port: int, count: int, said: bytes) -> AsyncIterator[list[asyncio.StreamReader]]:
    """``count`` connections that say ``said`` and nothing more, for as long as the server lets them."""
    streams = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        await writer.drain()
        streams.append((reader, writer))
    try:
        yield [reader for reader, _ in streams]
    finally:
        for _, writer in streams:
            writer.transport.abort()


async def statuses(port: int, path: str, times: int) -> list[int]:
    """What ``times`` requests are answered, each over a connection of its own."""
    found = []
    for _ in range(times):
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
            client.get(path) as response,
        ):
            found.append(response.status)
    return found
