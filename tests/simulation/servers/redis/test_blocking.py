"""Blocked reads end as they do on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.redis.agreement import Agreement, Command, RealServer
from tests.support.redis.in_memory import MemoryServer
from tests.support.redis.server import RedisServer
from tests.support.waiting import wait_until

GROUP: Command = (b"XGROUP", b"CREATE", b"x1", b"g1", b"$", b"MKSTREAM")
READ_GROUP = (b"XREADGROUP", b"GROUP", b"g1", b"c1", b"BLOCK", b"9000", b"STREAMS", b"x1", b">")
READ = (b"XREAD", b"BLOCK", b"9000", b"STREAMS", b"x1", b"$")
ADD: Command = (b"XADD", b"x1", b"7-7", b"a", b"1")
AFTER: list[Command] = [
    (b"XPENDING", b"x1", b"g1", b"-", b"+", b"9"),
    (b"XINFO", b"GROUPS", b"x1"),
    (b"XINFO", b"CONSUMERS", b"x1", b"g1"),
]
ENDINGS: dict[str, tuple[tuple[bytes, ...], list[Command]]] = {
    "a group gets an entry": (READ_GROUP, [ADD]),
    "a reader gets an entry": (READ, [ADD]),
    "an entry of a script": (
        READ_GROUP,
        [(b"EVAL", b"redis.call('XADD', 'x1', '7-7', 'a', '1')", b"0")],
    ),
    "entries of a transaction": (
        READ_GROUP,
        [(b"MULTI",), ADD, (b"XADD", b"x1", b"8-8", b"b", b"2"), (b"EXEC",)],
    ),
    "an entry that is gone at the end of the transaction": (
        READ_GROUP,
        [
            (b"MULTI",),
            ADD,
            (b"XDEL", b"x1", b"7-7"),
            (b"EXEC",),
            (b"XADD", b"x1", b"8-8", b"b", b"2"),
        ],
    ),
    "an entry of another stream before": (
        READ,
        [(b"XADD", b"x2", b"7-7", b"a", b"1"), (b"XTRIM", b"x1", b"MAXLEN", b"0"), ADD],
    ),
    "a renamed stream": (
        (b"XREAD", b"BLOCK", b"9000", b"STREAMS", b"x3", b"0"),
        [ADD, (b"RENAME", b"x1", b"x3")],
    ),
}


@pytest.fixture
def blocked(
    agreement: Agreement, redis_server: RedisServer
) -> Iterator[tuple[RealServer, MemoryServer]]:
    """A second connection to both servers."""
    real = RealServer(redis_server.port)
    assert isinstance(agreement.right, MemoryServer)
    yield real, MemoryServer(agreement.right.server)
    real.close()


async def wait_until_blocked(agreement: Agreement) -> None:
    await wait_until(
        lambda: b"blocked_clients:1\r\n" in agreement.left.ask(b"INFO", b"clients"),
        "a blocked client",
    )


def check_all(agreement: Agreement, commands: list[Command]) -> None:
    for one in commands:
        if found := agreement.check(one):
            pytest.fail(found)


@pytest.mark.parametrize(("read", "ending"), ENDINGS.values(), ids=ENDINGS)
async def test_a_blocked_read_is_served_alike(
    agreement: Agreement,
    blocked: tuple[RealServer, MemoryServer],
    read: tuple[bytes, ...],
    ending: list[Command],
) -> None:
    real, memory = blocked
    check_all(agreement, [GROUP])
    real.send(*read)
    memory.send(*read)
    await wait_until_blocked(agreement)
    assert memory.received() == b""
    check_all(agreement, ending)
    assert memory.received() == real.receive()
    check_all(agreement, AFTER)


@pytest.mark.parametrize("command", [(b"DEL", b"x1"), (b"UNLINK", b"x1"), (b"FLUSHALL",)])
async def test_a_group_that_vanishes_is_noticed_alike(
    agreement: Agreement, blocked: tuple[RealServer, MemoryServer], command: Command
) -> None:
    # Redis 7.0 says so at once; 6.2 when the stream has an entry again, and its group is another one.
    real, memory = blocked
    check_all(agreement, [GROUP])
    real.send(*READ_GROUP)
    memory.send(*READ_GROUP)
    await wait_until_blocked(agreement)
    check_all(agreement, [command])
    if agreement.exact_errors:
        assert memory.received() == real.receive()
    check_all(agreement, [(b"XADD", b"x1", b"1-1", b"a", b"1"), GROUP])
    if not agreement.exact_errors:
        assert memory.received() == real.receive()


async def test_the_first_to_wait_is_the_first_to_be_served(
    agreement: Agreement, blocked: tuple[RealServer, MemoryServer]
) -> None:
    check_all(agreement, [GROUP])
    server = blocked[1].server
    first, second = MemoryServer(server), MemoryServer(server)
    for one in (first, second):
        one.send(*READ_GROUP[:4], b"COUNT", b"1", *READ_GROUP[4:])
    blocked[1].ask(b"XADD", b"x1", b"1-1", b"a", b"1")
    assert b"1-1" in first.received()
    assert second.received() == b""
    blocked[1].ask(b"XADD", b"x1", b"2-2", b"a", b"1")
    assert b"2-2" in second.received()


async def test_requests_behind_a_blocked_one_wait() -> None:
    client = MemoryServer()
    client.send(*READ)
    client.send(b"PING")
    assert client.received() == b""
    MemoryServer(client.server).ask(b"XADD", b"x1", b"1-1", b"a", b"1")
    assert client.received().endswith(b"+PONG\r\n")
