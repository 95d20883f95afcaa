"""The local redis-server: start, answer, stop (docs/spec/design.md)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from local import redis_server
from local.redis_server import (
    find_redis_server,
    redis_server_command,
    redis_version,
    wheel_redis_server,
)
from shared.errors import ConfigurationError, Unavailable
from tests.support.redis.server import RedisServer, free_loopback_port


async def _answer(port: int, command: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(command + b"\r\n")
    answer = await reader.readline()
    writer.close()
    return answer


async def test_it_answers_when_start_returns_and_has_ended_after_stop(tmp_path: Path) -> None:
    """Bounded start, and no process left."""
    async with RedisServer(tmp_path / "data") as server:
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
        assert await _answer(server.port, b"PING") == b"+PONG\r\n"
        pid = server.pid
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert server.pid is None
    await server.stop()


async def test_nothing_is_persisted_by_default(tmp_path: Path) -> None:
    """Redis is never the record."""
    async with RedisServer(tmp_path) as server:
        await _answer(server.port, b"SET a 1")
    assert os.listdir(tmp_path) == ["redis.log"]


async def test_a_persistent_server_remembers(tmp_path: Path) -> None:
    """`dovetail up` may be stopped and started."""
    async with RedisServer(tmp_path, persistent=True) as server:
        await _answer(server.port, b"SET a 1")
    async with RedisServer(tmp_path, persistent=True) as server:
        assert await _answer(server.port, b"GET a") == b"$1\r\n"


async def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    """The server's own log is quoted."""
    async with RedisServer(tmp_path / "a") as server:
        with pytest.raises(Unavailable, match="in use"):
            await RedisServer(tmp_path / "b", port=server.port).start()


def test_the_command_runs_in_the_foreground_on_loopback(tmp_path: Path) -> None:
    """What a process supervisor would run."""
    command = redis_server_command(7000, tmp_path)
    assert command[0] == str(find_redis_server())
    assert command[command.index("--port") + 1] == "7000"
    assert command[command.index("--bind") + 1] == "127.0.0.1"
    assert command[command.index("--save") + 1] == ""
    assert command[command.index("--appendonly") + 1] == "no"


@pytest.mark.skipif(wheel_redis_server() is None, reason="the wheel is not for this platform")
def test_the_wheel_serves_when_path_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh machine has no redis-server of its own."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_server() == wheel_redis_server()


@pytest.mark.parametrize(
    ("present", "taken"),
    [
        (("redis-server", "valkey-server"), "redis-server"),
        (("valkey-server",), "valkey-server"),
    ],
)
def test_redis_or_valkey_on_path_come_before_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...], taken: str
) -> None:
    """Distributions that left Redis have Valkey, which answers the same."""
    for name in present:
        (tmp_path / name).symlink_to(find_redis_server())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_server() == tmp_path / taken


@pytest.mark.parametrize(
    "said",
    [
        "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0",
        "Valkey server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=fe5b4d1a4b1b4e7",
    ],
)
def test_both_print_their_version(tmp_path: Path, said: str) -> None:
    binary = tmp_path / "server"
    binary.write_text(f"#!/bin/sh\necho '{said}'\n")
    binary.chmod(0o755)
    assert redis_version(binary) == (7, 0, 15)


def test_a_server_that_is_too_old_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 11 has 6.0, whose streams lack commands that Dovetail needs."""
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.0.16 sha=0'\n")
    old.chmod(0o755)
    (tmp_path / "valkey-server").symlink_to(find_redis_server())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_server() == tmp_path / "valkey-server"
    (tmp_path / "valkey-server").unlink()
    monkeypatch.setattr(redis_server, "wheel_redis_server", lambda: None)
    with pytest.raises(ConfigurationError, match="redis-server is too old"):
        find_redis_server()


def test_without_any_binary_one_line_names_the_packages_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(redis_server, "wheel_redis_server", lambda: None)
    with pytest.raises(
        ConfigurationError, match=r"apt install redis-server.*brew install"
    ) as shown:
        find_redis_server()
    assert "\n" not in shown.value.message


def test_ports_are_free() -> None:
    """Two in a row are usable."""
    assert free_loopback_port() > 1023
