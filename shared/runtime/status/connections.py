"""Bounds on the connections of one listener: their number, and how long each may keep it waiting.

uvicorn bounds neither the time of a request's head nor that of its body, and refuses the newest connection when it has
too many: some dozen clients that never finish a request would shut everybody else out. Here a connection that waits
for its client has a deadline, and where there is no room it is such a connection that makes room: the oldest of the
address that has most. Only when all are being answered is the newest one refused, in words.
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
    """Of one listener. Durations in seconds."""

    connections: int = 64
    per_address: int = 32
    head_seconds: float = 5.0
    """From the first byte that is awaited to the end of the request's head."""
    body_seconds: float = 30.0
    idle_seconds: float = 30.0
    """Between two requests of one connection."""
    unread_seconds: float = 15.0
    """How long a client may leave an answer unread that does not fit into the buffers."""
    head_bytes: int = 16 * 1024


STATUS_LIMITS = Limits()
PROBE_LIMITS = Limits(
    connections=32, per_address=8, body_seconds=5.0, idle_seconds=15.0, unread_seconds=5.0
)


class Phase(Enum):
    """What a connection is doing; all but ANSWERING is waiting for the client."""

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
        self._told = -math.inf

    def admit(self, fresh: BoundedProtocol) -> bool:
        """Count a new connection in, at the cost of one that waits where there is no room. False: refuse it."""
        held = Counter(one.address for one in self._open)
        if held[fresh.address] >= self.limits.per_address:
            fits = self._make_room(held, fresh.address)
        else:
            fits = len(self._open) < self.limits.connections or self._make_room(held, None)
        if fits:
            self._open[fresh] = None
        return fits

    def forget(self, gone: BoundedProtocol) -> None:
        """Its connection is closed, or about to be."""
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
        self._tell(oldest)
        return True

    def _tell(self, shed: BoundedProtocol) -> None:
        """Somebody keeps many connections open: worth a line now and then, not one each."""
        self._closed += 1
        now = shed.loop.time()
        if now - self._told >= CLOSED_LOG_SECONDS:
            words = "closed connections that waited for their clients, to make room for others"
            log.warning(words, closed=self._closed, last_of=shed.address, awaited=shed.phase.value)
            self._told, self._closed = now, 0


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with the bounds of ``table``."""

    table: Connections
    address = ""
    phase = Phase.HEAD
    waiting_since = math.inf
    """By the event loop's clock."""
    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit or refuse it."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self.table.admit(self):
            self._end(503, "all connections are in use; try again in some seconds")
            return
        self._enter(Phase.HEAD)

    def data_received(self, data: bytes) -> None:
        """As uvicorn; then look what it waits for now."""
        if self._refused or self.transport.is_closing():
            return
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """As uvicorn; then look what it waits for now."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Start the deadline for a client that does not read its response."""
        super().pause_writing()
        self._enter(Phase.UNREAD)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the table."""
        self._set_deadline(None)
        self.table.forget(self)
        super().connection_lost(exc)

    def shed(self) -> None:
        """Make room for another: what waits here has been waiting longest."""
        self.transport.abort()

    def _look(self) -> None:
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
        """A phase that goes on keeps its deadline: a byte now and then buys no time."""
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
        """Say why and close. What the client still sends is not looked at."""
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
    """The protocol of one listener: a class, because uvicorn makes an object of it per connection."""
    members: dict[str, Any] = {"table": Connections(limits)}
    return cast("type[asyncio.Protocol]", type("Bounded", (BoundedProtocol,), members))
