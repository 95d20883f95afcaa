"""What the shipped Redis keeps over a restart of its container; an older picture is never taken for today's."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.bus.dead_letters import DeadLetters
from shared.redis.mirror import Change, MirrorLost, MirrorWriter
from shared.redis.mirror.pools.disruption_rate import DisruptionRate
from tests.deploy.redis.test_manifest import without_acl_file
from tests.support.redis.fixture import BINARIES
from tests.support.redis.server import RedisServer, free_loopback_port
from tests.support.redis.work import bus_at
from tests.support.waiting import wait_until

POOL = "NodePool/default"


@pytest.fixture(params=sorted(BINARIES))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> RedisServer:
    return RedisServer(
        tmp_path / "data",
        port=free_loopback_port(),
        binary=BINARIES[request.param],
        extra_arguments=without_acl_file(),
    )


async def appended(bus: Bus) -> None:
    """With `everysec` a reply can come up to 2 s before the write(2): Redis postpones it during an fsync."""

    async def nothing_is_buffered() -> bool:
        report: bytes = await bus.redis.execute_command("INFO", "persistence")  # type: ignore[no-untyped-call]
        return b"aof_buffer_length:0\r\n" in report

    await wait_until(nothing_is_buffered, "Redis has nothing left to append")


async def killed(server: RedisServer) -> None:
    """As when the node runs out of memory."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.stop()


def letters(bus: Bus) -> DeadLetters:
    return bus.dead_letters(streams.LAUNCHES)


async def bury(bus: Bus) -> None:
    await letters(bus).add(
        source="1-1",
        group="launcher",
        fields={b"key": b"one"},
        deliveries=5,
        error=ValueError("no"),
    )


async def test_a_killed_redis_still_has_dead_letters_and_the_count_of_disruptions(
    server: RedisServer,
) -> None:
    async with server, bus_at(server.url) as bus:
        rate = DisruptionRate(bus.redis, bus.prefix)
        await bury(bus)
        await rate.spend(POOL, ["u1"])
        await appended(bus)
        await killed(server)
        await server.start()
        assert len(await letters(bus).newest(10)) == 1
        assert (await rate.spent())[POOL] == 1


async def test_a_redis_that_lost_its_last_second_is_noticed_by_the_watcher(
    server: RedisServer, tmp_path: Path
) -> None:
    """An older picture is not added to: it is written anew."""
    data, kept = tmp_path / "data", tmp_path / "kept"
    async with server, bus_at(server.url) as bus:
        writer = MirrorWriter(bus.redis, bus.prefix, "epoch")
        await writer.begin({"pods": {"a/b": b"1"}})
        shutil.copytree(data, kept)
        await writer.apply([Change("pods", "a/b", None)])
        await killed(server)
        shutil.rmtree(data)
        shutil.copytree(kept, data)
        await server.start()
        with pytest.raises(MirrorLost):
            await writer.heartbeat()
        with pytest.raises(MirrorLost):
            await writer.apply([Change("pods", "a/c", b"2")])
