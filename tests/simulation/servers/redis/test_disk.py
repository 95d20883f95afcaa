"""A server that cannot save refuses the same commands as a real one whose directory is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.redis.agreement import Agreement, Command, RealServer
from tests.support.redis.fixture import BINARIES
from tests.support.redis.in_memory import MemoryServer
from tests.support.redis.server import RedisServer
from tests.support.waiting import wait_until

COMMANDS: list[Command] = [
    (b"PING",),
    (b"GET", b"s1"),
    (b"SET", b"s1", b"x"),
    (b"DEL", b"s1"),
    (b"XADD", b"x1", b"*", b"a", b"1"),
    (b"XACK", b"x1", b"g1", b"1-1"),
    (b"XREADGROUP", b"GROUP", b"g1", b"c1", b"STREAMS", b"x1", b">"),
    (b"XINFO", b"GROUPS", b"x1"),
    (b"EVAL", b"return redis.call('GET', 's1')", b"0"),
    (b"EVAL", b"return redis.call('SET', 's1', 'x')", b"0"),
    (b"MULTI",),
    (b"GET", b"s1"),
    (b"SET", b"s1", b"x"),
    (b"EXEC",),
    (b"EXISTS", b"s1"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BINARIES))
async def test_what_is_refused(name: str, tmp_path: Path) -> None:
    version = tuple(map(int, name.removeprefix("v=").split(".")))
    async with RedisServer(tmp_path / "redis", binary=BINARIES[name]) as server:
        real = RealServer(server.port)
        real.ask(b"CONFIG", b"SET", b"save", b"3600 1")
        shutil.rmtree(tmp_path / "redis")
        real.ask(b"BGSAVE")
        await wait_until(
            lambda: b"rdb_last_bgsave_status:err" in real.ask(b"INFO", b"persistence"),
            "a save that failed",
        )
        memory = MemoryServer(version=version)
        memory.server.set_disk_full(True)
        both = Agreement(real, memory, exact_errors=version >= (7,))
        found = [difference for one in COMMANDS if (difference := both.check(one))]
        real.close()
    assert found == []
