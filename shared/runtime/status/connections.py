"""Limits on the connections of one listener: their number, and how long each may wait for its client.

uvicorn limits neither the time of a request's head nor that of its body, and refuses new connections when there are too
many, so a few dozen clients that never finish a request would block all others. Here a connection that waits for its
client has a deadline. At the limit, a new connection replaces one that waits: the oldest one of the address with the
most connections. A new connection is refused, with a message, only while all others are being answered.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

from shared.log import get_logger

log = get_logger(__name__)

CLOSED_LOG_SECONDS = 60.0


@dataclass(frozen=True)
class Limits:
    """The limits of one listener. Durations are in seconds."""

    connections: int = 64
    per_address: int = 32
    head_seconds: float = 5.0
    """From when the first byte is awaited until the end of the request's head."""
    body_seconds: float = 30.0
    idle_seconds: float = 30.0
    """Between two requests of one connection."""
    unread_seconds: float = 15.0
    """How long a client may not read an answer that exceeds the buffers."""
    head_bytes: int = 16 * 1024


STATUS_LIMITS = Limits()
PROBE_LIMITS = Limits(
    connections=32, per_address=8, body_seconds=5.0, idle_seconds=15.0, unread_seconds=5.0
)


class Phase(Enum):
    """What a connection waits for; in all phases except ANSWERING it waits for the client."""

    HEAD = "the head of the request"
    BODY = "the body of the request"
    IDLE = "the next request"
    UNREAD = "the answer to be read"
    ANSWERING = "nothing"


class Connections:
    """The open connections of one listener."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[BoundedProtocol, None] = {}
        self._closed = 0
        self._logged_at = -math.inf

    def admit(self, fresh: BoundedProtocol) -> bool:
        """Adds a new connection, and at the limit closes one that waits. False: the new one must be refused."""
        held = Counter(one.address for one in self._open)
        if held[fresh.address] >= self.limits.per_address:
            fits = self._make_room(held, fresh.address)
        else:
            fits = len(self._open) < self.limits.connections or self._make_room(held, None)
        if fits:
            self._open[fresh] = None
        return fits

    def forget(self, gone: BoundedProtocol) -> None:
        """Removes a connection that is closed or is being closed."""
        self._open.pop(gone, None)

    def _make_room(self, held: Counter[str], address: str | None) -> bool:
        waiting = [
            one
            for one in self._open
            if one.phase is not Phase.ANSWERING and address in (None, one.address)
        ]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda one: (-held[one.address], one.waiting_since))
        self.forget(oldest)
        oldest.shed()
        self._log_closed(oldest)
        return True

    def _log_closed(self, shed: BoundedProtocol) -> None:
        """Logs at most one line per ``CLOSED_LOG_SECONDS``: a client may cause many closed connections per second."""
        self._closed += 1
        now = shed.loop.time()
        if now - self._logged_at >= CLOSED_LOG_SECONDS:
            words = "closed connections that waited for their clients, to make room for others"
            log.warning(words, closed=self._closed, last_of=shed.address, awaited=shed.phase.value)
            self._logged_at, self._closed = now, 0


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with the limits of ``table``."""

    table: Connections
    address = ""
    phase = Phase.HEAD
    waiting_since = math.inf
    """By the event loop's clock."""
    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admits or refuses the connection."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self.table.admit(self):
            self._end(503, "all connections are in use; try again in some seconds")
            return
        self._enter(Phase.HEAD)

    def data_received(self, data: bytes) -> None:
        """Handles the data as uvicorn does, then updates the phase."""
        if self._refused or self.transport.is_closing():
            return
        super().data_received(data)
        self._update_phase()

    def on_response_complete(self) -> None:
        """Completes the response as uvicorn does, then updates the phase."""
        super().on_response_complete()
        self._update_phase()

    def pause_writing(self) -> None:
        """Starts the deadline for a client that does not read its response."""
        super().pause_writing()
        self._enter(Phase.UNREAD)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """Removes the connection from the table."""
        self._set_deadline(None)
        self.table.forget(self)
        super().connection_lost(exc)

    def shed(self) -> None:
        """Closes the connection in favour of a new one."""
        self.transport.abort()

    def _update_phase(self) -> None:
        if not self.transport.is_closing():
            self._enter(self._phase())

    def _phase(self) -> Phase:
        if self.flow.write_paused:
            return Phase.UNREAD
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return Phase.BODY
        if state is not h11.IDLE:
            return Phase.ANSWERING
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        return Phase.HEAD if begun else Phase.IDLE

    def _enter(self, phase: Phase) -> None:
        """An unchanged phase keeps its deadline: single bytes must not extend it."""
        if phase is self.phase and self._deadline is not None:
            return
        limits = self.table.limits
        seconds = {
            Phase.HEAD: limits.head_seconds,
            Phase.BODY: limits.body_seconds,
            Phase.IDLE: limits.idle_seconds,
            Phase.UNREAD: limits.unread_seconds,
            Phase.ANSWERING: None,
        }
        self.phase, self.waiting_since = phase, self.loop.time()
        self._set_deadline(seconds[phase])

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self.phase in (Phase.HEAD, Phase.BODY):
            self._end(408, f"{self.phase.value} did not come in time")
        else:
            self.transport.abort()

    def _end(self, status: int, text: str) -> None:
        """Sends the reason and closes the connection. Further data of the client is ignored."""
        self._refused = True
        started = self.cycle is not None and self.cycle.response_started
        if not started or self.cycle.response_complete:
            self.transport.write(_refusal(status, text))
        self.transport.close()


def _refusal(status: int, text: str) -> bytes:
    body = orjson.dumps({"error": text})
    phrase = {408: "Request Timeout", 503: "Service Unavailable"}[status]
    head = (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\nretry-after: 2\r\n\r\n"
    )
    return head.encode() + body


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol of one listener: a class, because uvicorn creates an instance per connection."""
    members: dict[str, Any] = {"table": Connections(limits)}
    return cast("type[asyncio.Protocol]", type("Bounded", (BoundedProtocol,), members))
