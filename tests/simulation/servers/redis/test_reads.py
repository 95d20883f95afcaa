"""What invariants read from the server without a connection."""

from __future__ import annotations

from simulation.servers.redis import RedisServer
from simulation.servers.redis.server import PendingEntry
from tests.support.redis.in_memory import MemoryServer


def test_streams_groups_and_what_is_pending() -> None:
    server = RedisServer(lambda: 0.5)
    client = MemoryServer(server)
    for stream in (b"x2", b"x1"):
        client.ask(b"XGROUP", b"CREATE", stream, b"g1", b"0", b"MKSTREAM")
    for number in (b"1-1", b"2-1", b"3-1"):
        client.ask(b"XADD", b"x1", number, b"name", number)
    client.ask(b"XREADGROUP", b"GROUP", b"g1", b"c1", b"COUNT", b"2", b"STREAMS", b"x1", b">")
    client.ask(b"XACK", b"x1", b"g1", b"1-1")
    assert server.streams() == ["x1", "x2"]
    assert (server.length("x1"), server.length("absent")) == (3, 0)
    assert [one.id for one in server.entries("x1", after="1-1")] == ["2-1", "3-1"]
    assert server.entries("x1")[0].fields == {b"name": b"1-1"}
    assert server.groups("x1") == ["g1"]
    assert server.pending("x1", "g1") == [PendingEntry("2-1", "c1", 1_790_000_000.5, 1)]
    assert server.pending("x1", "absent") == []
    assert (server.unread("x1", "g1"), server.unread("x1", "absent")) == (1, 3)


def test_keys_and_values_of_other_types() -> None:
    server = RedisServer(lambda: 0.0)
    client = MemoryServer(server)
    client.ask(b"SET", b"b", b"text")
    client.ask(b"HSET", b"a", b"y", b"2", b"x", b"1")
    client.ask(b"ZADD", b"c", b"2", b"two", b"1", b"one")
    assert server.keys() == ["a", "b", "c"]
    assert server.keys("b") == ["b"]
    assert (server.get("b"), server.get("a"), server.get("absent")) == (b"text", None, None)
    assert list(server.hash("a").items()) == [(b"x", b"1"), (b"y", b"2")]
    assert list(server.members("c").items()) == [(b"one", 1.0), (b"two", 2.0)]
    assert (server.hash("b"), server.members("b"), server.streams()) == ({}, {}, [])


def test_connections_are_counted() -> None:
    server = RedisServer(lambda: 0.0)
    first, second = MemoryServer(server), MemoryServer(server)
    assert server.connections == 2
    first.close()
    assert server.connections == 1
    second.close()
