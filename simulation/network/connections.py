"""Connections in memory between simulated processes.

A connection is two transports. What one end writes arrives at the other after a latency, in order, while the link
between the two parties lets it pass. Both ends keep asyncio's contract: flow control, one ``connection_lost``, no
callback after it. Every callback of a protocol runs in the context of its owner, so a killed process gets none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from simulation.network.links import Links, When
from simulation.owner import Owner

if TYPE_CHECKING:
    from simulation.loop import SimulatedLoop

Address = tuple[str, int]
HIGH_WATER_BYTES = 64 * 1024
"""Unread bytes at which a writer is asked to pause."""
SLOW_READER_SECONDS = 3.0
CONNECT_TIMEOUT_SECONDS = 130.0
"""How long a connection attempt without an answer takes to fail; Linux's default."""


class SimulatedServer:
    """A listening address; ``owner`` accepts the connections."""

    def __init__(
        self, network: Network, address: Address, owner: Owner, factory: Callable[[], Any]
    ) -> None:
        self._network, self.address, self.owner = network, address, owner
        self.factory = factory
        self.context = copy_context()
        self.sockets: tuple[Any, ...] = ()

    def close(self) -> None:
        """Refuse further connections; open ones stay."""
        self._network.forget(self)

    async def wait_closed(self) -> None:
        """Return at once."""

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._network.serves(self)


OnData = Callable[[str, str, bytes], None]
"""(sender, receiver, bytes that were sent)."""


class Network:
    """All servers and connections. ``on_data`` gets all bytes that are sent, also those that get lost."""

    def __init__(self, random: Random, on_data: OnData | None = None) -> None:
        self._random = random
        self.on_data = on_data
        self._loop: SimulatedLoop
        self._servers: dict[Address, SimulatedServer] = {}
        self._open: dict[int, Transport] = {}
        self._numbers = count(1)
        self.links = Links(random)

    def attach(self, loop: SimulatedLoop) -> None:
        """The loop that delivers."""
        self._loop = loop
        self.links.time = loop.time

    def listen(self, owner: Owner, address: Address, factory: Callable[[], Any]) -> SimulatedServer:
        """Raises OSError when the address is in use."""
        held = self._servers.get(address)
        if held is not None and held.owner.alive:
            raise OSError(98, f"address {address[0]}:{address[1]} is in use")
        server = self._servers[address] = SimulatedServer(self, address, owner, factory)
        return server

    def forget(self, server: SimulatedServer) -> None:
        """The address is free again."""
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    def serves(self, server: SimulatedServer) -> bool:
        """Whether the server still listens."""
        return self._servers.get(server.address) is server

    async def reach(self, client: Owner, address: Address) -> None:
        """One round trip to a listening server.

        Raises ConnectionRefusedError when nobody listens, TimeoutError when the network lost the attempt for too long.
        """
        server = self._servers.get(address)
        party = server.owner.name if server else f"{address[0]}:{address[1]}"
        delay = 2 * self.links.latency(client.name, party)
        blocked = self.links.blocked_until(client.name, party) - self._loop.time()
        if blocked > CONNECT_TIMEOUT_SECONDS:
            await asyncio.sleep(CONNECT_TIMEOUT_SECONDS)
            raise TimeoutError(110, f"connect to {party} timed out")
        await asyncio.sleep(max(0.0, blocked) + delay)
        if self._listening(address) is None:
            raise ConnectionRefusedError(111, f"connect to {party}: connection refused")

    def connect(self, client: Owner, address: Address, protocol: Any) -> tuple[Transport, Any]:
        """Open a connection. Raises ConnectionRefusedError."""
        server = self._listening(address)
        if server is None:
            raise ConnectionRefusedError(111, f"connect to {address[0]}: connection refused")
        number = next(self._numbers)
        peername = (f"10.2.0.{number % 250 + 1}", 1024 + number % 60_000)
        ours = Transport(self, client, copy_context(), address, peername, 2 * number)
        theirs = Transport(self, server.owner, server.context, peername, address, 2 * number + 1)
        ours.peer, theirs.peer = theirs, ours
        self._open[ours.number], self._open[theirs.number] = ours, theirs
        accepted = server.context.run(server.factory)
        theirs.begin(accepted)
        ours.begin(protocol, now=True)
        return ours, protocol

    def _listening(self, address: Address) -> SimulatedServer | None:
        server = self._servers.get(address)
        return server if server is not None and server.owner.alive else None

    # What happens to connections

    def kill(self, owner: Owner) -> None:
        """The process died: its kernel sends what was written, then closes every connection."""
        for transport in [one for one in self._open.values() if one.owner is owner]:
            transport.die()
        for server in [one for one in self._servers.values() if one.owner is owner]:
            self.forget(server)

    def reset(self, first: str, second: str | None = None) -> int:
        """Reset every connection of ``first``, or those between both; returns how many."""
        found = [one for one in self._open.values() if one.between(first, second)]
        for transport in found:
            transport.reset()
        return len(found)

    def half_open(self, a: str, b: str, seconds: float) -> int:
        """Lose everything on the open connections between two parties for ``seconds``, then reset them; how many."""
        found = [one for one in self._open.values() if one.between(a, b)]
        for transport in found:
            transport.half_open = True
            self._loop.call_later(seconds, transport.reset)
        return len(found) // 2

    def cut(self, a: str, b: str, when: When) -> None:
        """The next request of ``a`` is lost with its connection, or its answer is."""
        self.links.cut(a, b, when)

    def partition(self, a: str, b: str, seconds: float) -> None:
        """Nothing passes between two parties for ``seconds``; afterwards everything arrives."""
        self.links.partition(a, b, seconds)

    def latency(self, a: str, b: str, delay_seconds: float, seconds: float) -> None:
        """For ``seconds`` bytes between two parties take up to ``delay_seconds`` longer."""
        self.links.slow(a, b, delay_seconds, seconds)

    def slow_reader(self, party: str, seconds: float) -> None:
        """For ``seconds`` everything that is sent to ``party`` takes some seconds longer."""
        self.links.slow_reader(party, SLOW_READER_SECONDS, seconds)

    def dropped(self, transport: Transport) -> None:
        """The transport is closed."""
        self._open.pop(transport.number, None)

    def connections(self) -> list[tuple[str, str]]:
        """Party and peer of every open end, in the order of their creation."""
        return [(one.owner.name, one.peer.owner.name) for one in self._open.values()]

    @property
    def loop(self) -> SimulatedLoop:
        """The loop that delivers."""
        return self._loop


class Transport(asyncio.Transport):
    """One end of a connection."""

    peer: Transport

    def __init__(
        self,
        network: Network,
        owner: Owner,
        context: Context,
        peername: Address,
        sockname: Address,
        number: int,
    ) -> None:
        super().__init__({"peername": peername, "sockname": sockname, "socket": None})
        self._network, self.owner, self.number = network, owner, number
        self._context = context
        self._loop = network.loop
        self._protocol: Any = None
        self._arriving: list[bytes] = []
        """Delivered but not read, while reading is paused."""
        self._reading = True
        self._unread = 0
        """Bytes written by the peer that this end has not read."""
        self._last = 0.0
        """When the last bytes or the end arrive here; nothing overtakes them."""
        self._writer_paused = False
        self._closing = False
        self._lost = False
        self._eof_written = False
        self.half_open = False
        """Nothing arrives any more and nobody notices."""

    def begin(self, protocol: Any, *, now: bool = False) -> None:
        """Give the protocol its transport."""
        self._protocol = protocol
        if now:
            protocol.connection_made(self)
        else:
            self._soon(protocol.connection_made, self)

    def _soon(self, callback: Callable[..., Any], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    # asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send to the peer."""
        if self._lost or self._closing or not data:
            return
        self.peer.arrive(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._eof_written:
            self._eof_written = True
            self.peer.arrive(None)

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        """Send what was written, then close."""
        if self._closing:
            return
        self._closing = True
        self.peer.arrive(None)
        self._soon(self._lose, None)

    def abort(self) -> None:
        """Close at once; the peer sees a reset."""
        self._closing = True
        self.peer.arrive_reset()
        self._soon(self._lose, None)

    def is_closing(self) -> bool:
        return self._closing

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._soon(self._read)

    def get_write_buffer_size(self) -> int:
        return self.peer._unread

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return HIGH_WATER_BYTES // 4, HIGH_WATER_BYTES

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits are those of the simulation."""

    # The way here

    def arrive(self, data: bytes | None) -> None:
        """``data`` is on its way to this end; None: the peer writes no more."""
        links, names = self._network.links, (self.peer.owner.name, self.owner.name)
        if self.half_open or self._lost:
            return
        if data is not None and self._network.on_data is not None:
            self._network.on_data(*names, data)
        fate = links.fate(*names) if data is not None else "pass"
        if fate == "reset":
            self.reset()
            return
        due = max(self._last, links.arrival(*names))
        self._last = due
        if data is not None:
            self._unread += len(data)
            self.peer._check_pause()
        self._loop.call_exactly(due, self._deliver, data, context=self._context)

    def arrive_reset(self) -> None:
        """A reset is on its way to this end."""
        due = self._network.links.arrival(self.peer.owner.name, self.owner.name)
        error = ConnectionResetError(104, "connection reset by peer")
        self._loop.call_exactly(due, self._lose, error, context=self._context)

    def _deliver(self, data: bytes | None) -> None:
        if self._lost or self.half_open:
            return
        if data is None:
            self._arriving.append(b"")
        else:
            self._arriving.append(data)
        if self._reading:
            self._read()

    def _read(self) -> None:
        while self._arriving and self._reading and not self._lost:
            data = self._arriving.pop(0)
            if not data:
                self._end()
                continue
            self._unread -= len(data)
            self.peer._check_resume()
            if not self._closing:
                self._protocol.data_received(data)

    def _end(self) -> None:
        if self._closing:
            return
        keep = self._protocol.eof_received()
        if not keep or self.peer._closing:
            self._closing = True
            if not self._eof_written:
                self.peer.arrive(None)
            self._soon(self._lose, None)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._network.dropped(self)
        self._protocol.connection_lost(error)

    def _check_pause(self) -> None:
        if not self._writer_paused and self.peer._unread > HIGH_WATER_BYTES:
            self._writer_paused = True
            self._soon(self._protocol.pause_writing)

    def _check_resume(self) -> None:
        if self._writer_paused and self.peer._unread <= HIGH_WATER_BYTES // 4:
            self._writer_paused = False
            self._soon(self._resume_writing)

    def _resume_writing(self) -> None:
        if not self._lost:
            self._protocol.resume_writing()

    # Faults

    def between(self, first: str, second: str | None) -> bool:
        """Whether this end belongs to a connection of ``first`` (with ``second``)."""
        names = self.owner.name, self.peer.owner.name
        return first in names and (second is None or second in names)

    def reset(self) -> None:
        """Both ends see a reset."""
        error = ConnectionResetError(104, "connection reset by peer")
        for end in (self, self.peer):
            end._closing = True
            end._soon(end._lose, error)

    def die(self) -> None:
        """The owner was killed: the peer receives what was written, then the end of the connection."""
        self._lost = self._closing = True
        self._network.dropped(self)
        self.peer.arrive(None)
