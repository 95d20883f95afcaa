"""HTTP/1.1 connections for servers on one loop: requests come in whole, answers are written when they are ready.

One request of a connection is answered after the other. An answer may come later, and it may be a stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import httptools

Header = tuple[str, str]
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Cancellable(Protocol):
    """A task, a timer or another thing under way that can be ended."""

    def cancel(self) -> object:
        """End it."""
        ...


class ConnectionLost(Exception):
    """The client is gone, so nothing more can be written."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``target`` is path and query as sent; names of ``headers`` are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def program(self) -> str:
        """The client's program: the User-Agent's product that names a part of Dovetail, or its first one."""
        products = self.headers.get("user-agent", "").split()
        own = [one for one in products if one.startswith("dovetail")]
        return (own or products or [""])[0].partition("/")[0]


class Connections:
    """The open connections of one server, in the order of their beginning."""

    def __init__(
        self, handle: Callable[[Connection, Request], None], time: Callable[[], float]
    ) -> None:
        self.handle, self._time = handle, time
        self.open: dict[Connection, None] = {}
        self._down_until = float("-inf")

    def new(self) -> Connection:
        """The protocol of a new connection."""
        return Connection(self)

    @property
    def down(self) -> bool:
        """Whether the server takes no connection at present."""
        return self._time() < self._down_until

    def stop(self, seconds: float) -> None:
        """Reset every connection now and every new one for ``seconds``."""
        self._down_until = max(self._down_until, self._time() + seconds)
        self.abort()

    def abort(self) -> None:
        """Reset every connection."""
        for connection in list(self.open):
            connection.abort()


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: Connections) -> None:
        self._server = server
        self._transport: Any = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._answering: Request | None = None
        self._url = bytearray()
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._keep = True
        self._writable: asyncio.Event | None = None
        self.work: Cancellable | None = None
        """What writes the current answer; it is cancelled when the client leaves."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the connection, unless the server takes none."""
        self._transport = transport
        if self._server.down:
            self.abort()
            return
        self._server.open[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and end its answer."""
        self._server.open.pop(self, None)
        self._transport = None
        self._waiting.clear()
        if self.work is not None:
            self.work.cancel()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse; complete requests are handled from within."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._writable = self._writable or asyncio.Event()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    # httptools

    def on_message_begin(self) -> None:
        """Start with an empty request."""
        self._url = bytearray()
        self._headers, self._body = {}, []

    def on_url(self, url: bytes) -> None:
        """Part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; of a repeated one the values are joined."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """A client that sends ``Expect`` waits for permission to send its body."""
        if self._headers.get("expect", "").lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Handle the request, after the earlier ones."""
        self._keep = self._parser.should_keep_alive()
        method = self._parser.get_method().decode("ascii")
        target = self._url.decode("latin-1")
        self._waiting.append(Request(method, target, self._headers, b"".join(self._body)))
        self._next()

    def _next(self) -> None:
        if self._answering is None and self._waiting:
            self._answering = self._waiting.popleft()
            self._server.handle(self, self._answering)

    # Answers

    @property
    def lost(self) -> bool:
        """Whether the client is gone."""
        return self._transport is None

    def answer(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """Send a whole answer. Nothing happens when the client is gone."""
        rows = [*headers, ("content-length", str(len(body)))]
        self._write(_head(status, rows) + body)
        self._end()

    def begin_stream(self, status: int, headers: Sequence[Header]) -> None:
        """Start an answer of unknown length."""
        self._write(_head(status, [*headers, ("transfer-encoding", "chunked")]))

    async def send(self, chunk: bytes) -> None:
        """Send a part of a stream and wait until the client reads it. Raises ConnectionLost."""
        if self._transport is None:
            raise ConnectionLost
        self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if self._writable is not None:
            await self._writable.wait()

    def end_stream(self) -> None:
        """Send the end of a stream."""
        self._write(b"0\r\n\r\n")
        self._end()

    def write_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._write(data)

    def close(self) -> None:
        """Close the connection after what was written, whatever is missing."""
        if self.work is not None:
            self.work.cancel()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Reset the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _end(self) -> None:
        self._answering = self.work = None
        if self._transport is None:
            return
        if self._keep:
            self._next()
        else:
            self._transport.close()


def _head(status: int, headers: Sequence[Header]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Fault')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
