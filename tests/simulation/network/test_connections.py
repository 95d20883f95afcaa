"""Connections in memory keep TCP's and asyncio's promises, and break as real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from random import Random
from typing import Any

import pytest

from simulation.loop import SimulatedLoop, run
from simulation.network.connections import Network
from simulation.owner import CURRENT, Owner

# A simulated process that ends closes nothing itself: its writers are collected open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PLACE = ("10.0.0.1", 6379)
Talk = Callable[[Network, Owner], Awaitable[Any]]


def play(talk: Talk, seed: int = 1) -> Any:
    """``talk(network, server's owner)`` as process "client", beside a server that answers each line with "echo "."""
    network = Network(Random(seed))
    loop = SimulatedLoop(Random(seed), network)
    server = Owner("server")

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(b"echo " + line)
        writer.close()

    async def main() -> Any:
        context = copy_context()
        context.run(CURRENT.set, server)
        await loop.create_task(_start(echo), context=context)
        CURRENT.set(Owner("client"))
        return await talk(network, server)

    return run(loop, main())


async def _start(echo: Any) -> None:
    await asyncio.start_server(echo, *PLACE)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: bytes) -> bytes:
    writer.write(line + b"\n")
    return await reader.readline()


def test_what_is_sent_is_reported_with_both_parties() -> None:
    sent: list[tuple[str, str, bytes]] = []

    async def talk(network: Network, _server: Owner) -> None:
        network.on_data = lambda *data: sent.append(data)
        await ask(*await asyncio.open_connection(*PLACE), b"hello")

    play(talk)
    assert sent == [("client", "server", b"hello\n"), ("server", "client", b"echo hello\n")]


def test_bytes_arrive_in_order() -> None:
    async def talk(_network: Network, _server: Owner) -> list[bytes]:
        reader, writer = await asyncio.open_connection(*PLACE)
        for number in range(100):
            writer.write(b"%d\n" % number)
        return [await reader.readline() for _ in range(100)]

    assert play(talk) == [b"echo %d\n" % number for number in range(100)]


def test_nobody_listens_at_another_address() -> None:
    async def talk(_network: Network, _server: Owner) -> None:
        await asyncio.open_connection("10.0.0.9", 80)

    with pytest.raises(ConnectionRefusedError):
        play(talk)


def test_the_end_of_one_side_reaches_the_other_after_the_bytes() -> None:
    async def talk(_network: Network, _server: Owner) -> bytes:
        reader, writer = await asyncio.open_connection(*PLACE)
        writer.write(b"last\n")
        writer.write_eof()
        return await reader.read()

    assert play(talk) == b"echo last\n"


def test_a_slow_reader_pauses_the_writer() -> None:
    async def talk(network: Network, server: Owner) -> float:
        network.links.slow_reader("server", 20.0, 60.0)
        _, writer = await asyncio.open_connection(*PLACE)
        before = asyncio.get_running_loop().time()
        writer.write((b"x" * 999 + b"\n") * 200)
        await writer.drain()
        await asyncio.sleep(0)
        await writer.drain()
        return asyncio.get_running_loop().time() - before

    assert play(talk) > 19.0


def test_a_partition_delays_what_was_sent() -> None:
    async def talk(network: Network, _server: Owner) -> tuple[bytes, float]:
        reader, writer = await asyncio.open_connection(*PLACE)
        network.links.partition("client", "server", 30.0)
        before = asyncio.get_running_loop().time()
        return await ask(reader, writer, b"a"), asyncio.get_running_loop().time() - before

    answer, seconds = play(talk)
    assert answer == b"echo a\n"
    assert 30.0 <= seconds < 31.0


def test_a_connection_attempt_into_a_long_partition_times_out() -> None:
    async def talk(network: Network, _server: Owner) -> None:
        network.links.partition("client", "server", 600.0)
        await asyncio.open_connection(*PLACE)

    with pytest.raises(TimeoutError):
        play(talk)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_resets_the_connection_before_or_after_the_effect(when: Any) -> None:
    heard: list[bytes] = []

    async def talk(network: Network, _server: Owner) -> None:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readline())
            writer.write(b"answer\n")

        context = copy_context()
        context.run(CURRENT.set, Owner("store"))
        await asyncio.get_running_loop().create_task(_start_at(hear, "10.0.0.5"), context=context)
        reader, writer = await asyncio.open_connection("10.0.0.5", 80)
        network.links.cut("client", "store", when)
        await ask(reader, writer, b"write")

    with pytest.raises(ConnectionResetError):
        play(talk)
    assert heard == ([b"write\n"] if when == "after" else [])


async def _start_at(serve: Any, host: str) -> None:
    await asyncio.start_server(serve, host, 80)


def test_a_killed_server_closes_its_connections_and_refuses_new_ones() -> None:
    async def talk(network: Network, server: Owner) -> bytes:
        reader, writer = await asyncio.open_connection(*PLACE)
        await ask(reader, writer, b"a")
        asyncio.get_running_loop().kill(server)  # type: ignore[attr-defined]
        network.kill(server)
        ended = await reader.read()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*PLACE)
        return ended

    assert play(talk) == b""


def test_on_a_half_open_connection_nothing_arrives_and_nobody_notices() -> None:
    async def talk(network: Network, _server: Owner) -> bytes:
        reader, writer = await asyncio.open_connection(*PLACE)
        assert network.half_open("client", "server", 600.0) == 1
        async with asyncio.timeout(60):
            return await ask(reader, writer, b"a")

    with pytest.raises(TimeoutError):
        play(talk)
