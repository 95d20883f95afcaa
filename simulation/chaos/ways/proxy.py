"""A TCP proxy between the services and one server: requests and answers are cut, held up, delayed, lost or refused.

Every connection belongs to a party: the service whose mark is in its first bytes (a user name, a user agent, an access
key). Connections without a mark belong to nobody, and only faults of the server itself reach them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from shared.concurrency.tasks import TaskGroup
from simulation.chaos.ways.answers import chunk, is_watch, method_of_whole, refusal
from simulation.servers.refusals import Refusals

CHUNK_BYTES = 65_536
HOST = "127.0.0.1"


def _do_nothing(_party: str, _data: bytes) -> None:
    return None


@dataclass
class Way:
    """What happens to the bytes of one party. Times are those of the loop."""

    cut: Literal["", "before", "after"] = ""
    held_until: float = 0.0
    delay_seconds: float = 0.0
    delayed_until: float = 0.0


@dataclass(eq=False)
class Connection:
    """One connection of a client, and the one to the server that was opened for it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    party: str = ""
    is_watch: bool = False
    is_half_open: bool = False
    """The server's side is closed, and the client does not learn it."""
    loses_answer: bool = False

    def abort(self) -> None:
        """End both sides at once."""
        self.client.transport.abort()
        self.server.transport.abort()


class Proxy:
    """Forwards connections from ``port`` to ``target`` on loopback.

    ``marks``: name of a party -> bytes that only its connections begin with. ``random`` draws refused requests.
    """

    def __init__(
        self,
        target: int,
        marks: Mapping[str, bytes],
        random: Random,
        on_request: Callable[[str, bytes], object] = _do_nothing,
    ) -> None:
        """``on_request`` gets the party and the bytes of whatever is sent to the server."""
        self.target, self._marks, self._on_request = target, marks, on_request
        self.port = 0
        self._ways: defaultdict[str, Way] = defaultdict(Way)
        self._open: set[Connection] = set()
        self._down_until = 0.0
        self._refusals = Refusals(random, self._now)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End everything; returns when no connection is left."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Faults

    def cut(self, party: str, when: Literal["before", "after"]) -> None:
        """The next request loses its connection before it arrives, or after it has arrived and before its answer."""
        self._ways[party].cut = when

    def hold(self, party: str, seconds: float) -> None:
        """Nothing passes for ``seconds``; then everything does."""
        way = self._ways[party]
        way.held_until = max(way.held_until, self._now() + seconds)

    def delay(self, party: str, delay_seconds: float, seconds: float) -> None:
        """Everything takes longer for ``seconds``."""
        way = self._ways[party]
        way.delay_seconds, way.delayed_until = delay_seconds, self._now() + seconds

    def half_open(self, party: str, seconds: float) -> None:
        """Close the server's side of every open connection; the client learns it after ``seconds``."""
        for connection in self._of(party):
            connection.is_half_open = True
            connection.server.transport.abort()
            asyncio.get_running_loop().call_later(seconds, connection.abort)

    def down(self, seconds: float) -> None:
        """For ``seconds`` the server is gone: connections break and are refused."""
        self._down_until = max(self._down_until, self._now() + seconds)
        for connection in self._open:
            connection.abort()

    def refuse(self, status: int, percent: float, seconds: float) -> None:
        """For ``seconds`` a share of the HTTP requests gets this status, and does not arrive."""
        self._refusals.add(status, percent, seconds)

    def end_watches(self, data: bytes) -> None:
        """End every watch after ``data``."""
        for connection in [one for one in self._open if one.is_watch]:
            connection.client.write(chunk(data))
            connection.client.close()
            connection.server.transport.abort()

    def _of(self, party: str) -> list[Connection]:
        return [one for one in self._open if one.party == party]

    # Bytes

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._now() >= self._down_until:
                there, back = await asyncio.open_connection(HOST, self.target)
                await self._carry(reader, there, Connection(writer, back))
        except OSError:
            pass  # The server is not there, so the client's connection ends as well.
        finally:
            writer.close()

    async def _carry(
        self, requests: asyncio.StreamReader, answers: asyncio.StreamReader, one: Connection
    ) -> None:
        self._open.add(one)
        try:
            async with TaskGroup() as group:
                group.create_task(_until_lost(self._requests(requests, one)))
                group.create_task(_until_lost(self._answers(answers, one)))
        finally:
            self._open.discard(one)
            one.server.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, one: Connection) -> None:
        while data := await reader.read(CHUNK_BYTES):
            one.party = one.party or self._party_of(data)
            one.is_watch = is_watch(data)
            way = self._ways[one.party]
            await self._pass(way)
            if one.is_half_open:
                continue
            if way.cut == "before":
                way.cut = ""
                one.abort()
                return
            if way.cut == "after":
                way.cut, one.loses_answer = "", True
            method = method_of_whole(data)
            if method and (status := self._refusals.status(method)):
                one.client.write(refusal(status))
                continue
            self._on_request(one.party, data)
            one.server.write(data)
            await one.server.drain()
        one.abort()

    async def _answers(self, reader: asyncio.StreamReader, one: Connection) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._pass(self._ways[one.party])
            if one.loses_answer:
                one.abort()
                return
            one.client.write(data)
            await one.client.drain()
        if not one.is_half_open:
            one.client.close()

    async def _pass(self, way: Way) -> None:
        if (rest := way.held_until - self._now()) > 0:
            await asyncio.sleep(rest)
        if self._now() < way.delayed_until:
            await asyncio.sleep(way.delay_seconds)

    def _party_of(self, data: bytes) -> str:
        return next((name for name, mark in self._marks.items() if mark in data), "")


async def _until_lost(pump: Coroutine[Any, Any, None]) -> None:
    """A connection that breaks ends its pump and nothing else."""
    with suppress(OSError):
        await pump
