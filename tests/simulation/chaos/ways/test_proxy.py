"""The proxy between services and a server: bytes pass both ways, and a fault strikes the party that it names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest

from simulation.chaos.ways.proxy import Proxy
from tests.support.waiting import wait_until

MARKS = {"launcher": b"launcher", "watcher": b"watcher"}


class Server:
    """Answers each request with it in capitals, and keeps what arrived."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            while data := await reader.read(1000):
                self.received.append(data)
                writer.write(data.upper())
        self.ended += 1
        writer.transport.abort()


@asynccontextmanager
async def proxied(
    on_request: Callable[[str, bytes], object] = lambda _party, _data: None,
) -> AsyncIterator[tuple[Server, Proxy]]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    proxy = Proxy(listening.sockets[0].getsockname()[1], MARKS, Random(1), on_request)
    await proxy.start()
    try:
        yield server, proxy
    finally:
        await proxy.close()
        listening.close()


class Client:
    """One connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes) -> bytes:
        """The answer; empty when the connection ends without one."""
        self.writer.write(request)
        return await self.read()

    async def read(self) -> bytes:
        try:
            return await self.reader.read(1000)
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    yield Client(reader, writer)
    writer.close()


async def ask(proxy: Proxy, request: bytes) -> bytes:
    """The answer to one request on a connection of its own."""
    async with connected(proxy) as client:
        return await client.ask(request)


async def test_requests_and_answers_pass() -> None:
    async with proxied() as (server, proxy):
        assert await ask(proxy, b"launcher") == b"LAUNCHER"
        assert server.received == [b"launcher"]


async def test_what_arrives_is_shown_with_its_party_and_what_is_cut_is_not() -> None:
    shown: list[tuple[str, bytes]] = []
    async with proxied(lambda party, data: shown.append((party, data))) as (_, proxy):
        await ask(proxy, b"launcher runs")
        proxy.cut("launcher", "before")
        await ask(proxy, b"launcher is cut")
        await ask(proxy, b"somebody")
    assert shown == [("launcher", b"launcher runs"), ("", b"somebody")]


async def test_a_cut_before_the_request_has_no_effect() -> None:
    async with proxied() as (server, proxy):
        proxy.cut("launcher", "before")
        assert await ask(proxy, b"launcher runs") == b""
        assert server.received == []
        assert await ask(proxy, b"launcher again") == b"LAUNCHER AGAIN"


async def test_a_cut_after_the_effect_loses_the_answer() -> None:
    async with proxied() as (server, proxy):
        proxy.cut("launcher", "after")
        assert await ask(proxy, b"launcher runs") == b""
        assert server.received == [b"launcher runs"]
        assert await ask(proxy, b"launcher again") == b"LAUNCHER AGAIN"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cut_strikes_the_party_that_it_names(when: str) -> None:
    async with proxied() as (_, proxy):
        proxy.cut("launcher", when)  # type: ignore[arg-type]
        assert await ask(proxy, b"watcher runs") == b"WATCHER RUNS"
        assert await ask(proxy, b"nobody runs") == b"NOBODY RUNS"
        assert await ask(proxy, b"launcher runs") == b""


async def test_a_connection_belongs_to_the_party_of_its_first_bytes() -> None:
    async with proxied() as (server, proxy), connected(proxy) as client:
        assert await client.ask(b"launcher") == b"LAUNCHER"
        proxy.cut("launcher", "before")
        assert await client.ask(b"watcher") == b""
        assert server.received == [b"launcher"]


async def test_a_cut_after_the_effect_waits_for_a_request() -> None:
    async with proxied() as (_, proxy), connected(proxy) as early, connected(proxy) as late:
        assert await early.ask(b"launcher 1") == b"LAUNCHER 1"
        proxy.cut("launcher", "after")
        assert await late.ask(b"launcher 2") == b""
        assert await early.ask(b"launcher 3") == b"LAUNCHER 3"


async def test_nothing_of_a_party_passes_while_it_is_held_and_everything_afterwards() -> None:
    async with proxied() as (server, proxy), connected(proxy) as client:
        proxy.hold("launcher", 0.3)
        client.writer.write(b"launcher later")
        assert await ask(proxy, b"watcher now") == b"WATCHER NOW"
        assert server.received == [b"watcher now"]
        assert await client.read() == b"LAUNCHER LATER"


async def test_what_is_sent_on_a_half_open_connection_is_lost() -> None:
    async with proxied() as (server, proxy), connected(proxy) as client:
        assert await client.ask(b"launcher 1") == b"LAUNCHER 1"
        proxy.half_open("launcher", 0.3)
        await wait_until(lambda: server.ended, "the server's side is closed")
        client.writer.write(b"launcher 2")
        assert await ask(proxy, b"launcher 3") == b"LAUNCHER 3"
        assert await client.read() == b""
        assert server.received == [b"launcher 1", b"launcher 3"]


async def test_a_server_that_is_down_breaks_and_refuses_connections() -> None:
    async with proxied() as (server, proxy), connected(proxy) as client:
        assert await client.ask(b"run") == b"RUN"
        proxy.down(0.3)
        assert await client.read() == b""
        assert await ask(proxy, b"too early") == b""
        await wait_until(lambda: ask(proxy, b"again"), "the server is back")
        assert b"too early" not in server.received


async def test_a_target_that_does_not_listen_ends_the_connection() -> None:
    async with proxied() as (_, proxy):
        proxy.target = 1
        assert await ask(proxy, b"run") == b""


async def test_the_end_of_the_proxy_ends_held_connections() -> None:
    async with proxied() as (_, proxy), connected(proxy) as client:
        assert await client.ask(b"launcher") == b"LAUNCHER"
        proxy.hold("launcher", 600)
        client.writer.write(b"more")
        await proxy.close()
        assert await client.read() == b""


def request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_a_refused_request_gets_the_status_and_does_not_arrive() -> None:
    async with proxied() as (server, proxy), connected(proxy) as client:
        proxy.refuse(429, 100.0, 60.0)
        answer = await client.ask(request("POST", "/api/v1/pods", b"{}"))
        assert answer.startswith(b"HTTP/1.1 429 TooManyRequests\r\n")
        assert b"Retry-After: 1\r\n" in answer
        assert server.received == []


async def test_a_conflict_needs_a_change() -> None:
    async with proxied() as (_, proxy):
        proxy.refuse(409, 100.0, 60.0)
        assert b"GET /API" in await ask(proxy, request("GET", "/api"))
        assert b" 409 Conflict" in await ask(proxy, request("PATCH", "/api"))


async def test_a_request_in_pieces_is_not_refused_in_the_middle() -> None:
    async with proxied() as (server, proxy), connected(proxy) as client:
        proxy.refuse(500, 100.0, 60.0)
        head, body = request("POST", "/api", b"{}")[:-2], b"{}"
        assert await client.ask(head) == head.upper()
        assert await client.ask(body) == body
        assert server.received == [head, body]


async def test_watches_end_after_the_given_bytes_and_other_connections_stay() -> None:
    async with proxied() as (_, proxy), connected(proxy) as watch, connected(proxy) as other:
        assert await watch.ask(request("GET", "/api/v1/pods?watch=true"))
        assert await other.ask(request("GET", "/api/v1/pods"))
        proxy.end_watches(b"half a li")
        assert await watch.read() == b"9\r\nhalf a li\r\n"
        assert await watch.read() == b""
        assert await other.ask(b"more") == b"MORE"
