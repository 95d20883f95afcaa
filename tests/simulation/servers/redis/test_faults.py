"""What a client sees of a server that restarts, fails over, stalls or is full; and what is left in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.loop import SimulatedLoop, run
from simulation.network.connections import Network
from simulation.servers.redis import RedisServer
from tests.support.redis.agreement import Command, Reference
from tests.support.redis.commands import FINAL, SCRIPTED, WELL_FORMED
from tests.support.redis.in_memory import MemoryServer

ADD = (b"XADD", b"x1", b"*", b"a", b"1")


def play(scene: Callable[[RedisServer, SimulatedLoop], Awaitable[None]]) -> None:
    """Play a scene in virtual time."""
    loop = SimulatedLoop(Random(1), Network(Random(1)))
    run(loop, scene(RedisServer(loop.time), loop))


def test_a_blocked_read_times_out_in_virtual_time() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client, begun = MemoryServer(server), loop.time()
        client.send(b"XREAD", b"BLOCK", b"2000", b"STREAMS", b"x1", b"$")
        await asyncio.sleep(1.999)
        assert client.received() == b""
        await asyncio.sleep(0.002)
        assert client.received() == b"*-1\r\n"
        assert loop.time() - begun < 2.1

    play(scene)


def test_keys_expire_in_virtual_time() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client = MemoryServer(server)
        client.ask(b"SET", b"s1", b"x", b"EX", b"3600")
        await asyncio.sleep(3599)
        assert client.ask(b"TTL", b"s1") == b":1\r\n"
        await asyncio.sleep(2)
        assert server.keys() == []
        assert client.ask(b"EXISTS", b"s1") == b":0\r\n"

    play(scene)


def test_a_restart_cuts_connections_and_forgets_scripts() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client = MemoryServer(server)
        digest = client.ask(b"SCRIPT", b"LOAD", b"return 1")[5:45]
        client.ask(b"SET", b"s1", b"x")
        client.send(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"x1", b"$")
        server.restart(keep_data=True)
        assert client.transport.closed
        again = MemoryServer(server)
        assert again.ask(b"EVALSHA", digest, b"0").startswith(b"-NOSCRIPT")
        assert server.get("s1") == b"x"
        again.ask(*ADD)
        assert client.received() == b""
        server.restart(keep_data=False)
        assert server.keys() == []

    play(scene)


def test_nobody_connects_while_the_server_is_down() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        server.restart(keep_data=True, down_seconds=5)
        assert MemoryServer(server).transport.closed
        await asyncio.sleep(5)
        assert not MemoryServer(server).transport.closed

    play(scene)


def test_a_failover_loses_the_last_writes_only() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client = MemoryServer(server)
        client.ask(b"XGROUP", b"CREATE", b"x1", b"g1", b"0", b"MKSTREAM")
        client.ask(*ADD)
        client.ask(b"XREADGROUP", b"GROUP", b"g1", b"c1", b"STREAMS", b"x1", b">")
        await asyncio.sleep(1)
        client.ask(*ADD)
        client.ask(b"XACK", b"x1", b"g1", server.entries("x1")[0].id.encode())
        server.fail_over(0.5)
        assert len(server.entries("x1")) == 1
        assert [one.consumer for one in server.pending("x1", "g1")] == ["c1"]
        assert client.transport.closed

    play(scene)


def test_a_stalled_server_answers_later_and_in_order() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        first, second = MemoryServer(server), MemoryServer(server)
        server.stall(10)
        first.send(b"SET", b"s1", b"first")
        second.send(b"GET", b"s1")
        await asyncio.sleep(9)
        assert (first.received(), second.received(), server.keys()) == (b"", b"", [])
        await asyncio.sleep(2)
        assert first.received() == b"+OK\r\n"
        assert second.received() == b"$5\r\nfirst\r\n"

    play(scene)


def test_a_blocked_read_outlasts_a_stall() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client = MemoryServer(server)
        client.send(b"XREAD", b"BLOCK", b"1000", b"STREAMS", b"x1", b"$")
        server.stall(10)
        await asyncio.sleep(9)
        assert client.received() == b""
        await asyncio.sleep(2)
        assert client.received() == b"*-1\r\n"

    play(scene)


def test_a_client_that_left_during_a_stall_still_has_its_effect() -> None:
    # A real server has the request in its socket: the reply is lost, the write is not.
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client = MemoryServer(server)
        server.stall(10)
        client.send(b"SET", b"s1", b"x")
        client.close()
        await asyncio.sleep(11)
        assert server.get("s1") == b"x"

    play(scene)


def test_a_full_server_reads_acknowledges_and_deletes() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client = MemoryServer(server)
        client.ask(b"XGROUP", b"CREATE", b"x1", b"g1", b"0", b"MKSTREAM")
        client.ask(*ADD)
        server.set_out_of_memory(True)
        assert client.ask(*ADD).startswith(b"-OOM ")
        client.ask(b"XREADGROUP", b"GROUP", b"g1", b"c1", b"STREAMS", b"x1", b">")
        assert client.ask(b"XACK", b"x1", b"g1", server.entries("x1")[0].id.encode()) == b":1\r\n"
        assert client.ask(b"DEL", b"x1") == b":1\r\n"
        server.set_out_of_memory(False)
        assert client.ask(*ADD).startswith(b"$")

    play(scene)


def test_a_server_that_cannot_save_refuses_writes() -> None:
    async def scene(server: RedisServer, loop: SimulatedLoop) -> None:
        client = MemoryServer(server)
        server.set_disk_full(True)
        assert client.ask(*ADD).startswith(b"-MISCONF ")
        assert client.ask(b"GET", b"s1") == b"$-1\r\n"
        assert client.ask(b"EVAL", b"return redis.call('DEL', 's1')", b"0").startswith(b"-MISCONF ")

    play(scene)


def test_who_watches_hears_of_messages_in_scripts_and_transactions() -> None:
    heard: list[str] = []
    server = RedisServer(lambda: 1.0, on_command=lambda name, words: heard.append(name))
    client = MemoryServer(server)
    client.ask(b"EVAL", b"redis.call('XADD', 'x1', '*', 'a', '1') redis.call('GET', 's1')", b"0")
    for words in ((b"MULTI",), ADD, (b"XACK", b"x1", b"g1", b"1-1"), (b"EXEC",)):
        client.ask(*words)
    assert heard == ["xadd", "xadd"]


@dataclass
class SteppingClock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def contents(server: RedisServer) -> list[bytes]:
    reader = MemoryServer(server)
    fixed = [one for one in FINAL if one[0] not in (b"HGETALL", b"SMEMBERS")]
    words = [tuple(part for part in one if isinstance(part, bytes)) for one in fixed]
    return [reader.ask(*one) for one in words]


@pytest.mark.slow
@given(
    before=st.lists(st.one_of(WELL_FORMED, SCRIPTED), max_size=30),
    lost=st.lists(st.one_of(WELL_FORMED, SCRIPTED), min_size=1, max_size=30),
)
def test_a_failover_restores_what_was_there(before: list[Command], lost: list[Command]) -> None:
    clock = SteppingClock()
    server = RedisServer(clock)
    perform(server, before)
    server.fail_over(0)
    expected = contents(server)
    clock.now += 1
    perform(server, lost)
    server.fail_over(0.5)
    clock.now -= 1
    assert contents(server) == expected
    clock.now += 1
    # What was restored works as before: the same commands have the same end once more.
    perform(server, lost)
    assert contents(server) == contents(rebuilt(before, lost))


def rebuilt(before: list[Command], lost: list[Command]) -> RedisServer:
    clock = SteppingClock()
    server = RedisServer(clock)
    perform(server, before)
    clock.now += 1
    perform(server, lost)
    return server


def perform(server: RedisServer, commands: list[Command]) -> None:
    """Commands of one client, which leaves an open transaction behind."""
    client = MemoryServer(server)
    for command in commands:
        words = [b"7-7" if isinstance(word, Reference) else word for word in command]
        client.ask(*words)
