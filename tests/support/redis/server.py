"""A real redis-server on a free loopback port: a plain child process, which its starter must stop.

Failures: another process takes the port after it was chosen (another port is tried); the server does not answer within
10 s (the error quotes its log).
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from local.redis_server import redis_server_command
from shared.errors import Unavailable
from shared.log import get_logger

log = get_logger(__name__)

START_SECONDS = 10.0
STOP_SECONDS = 5.0
START_ATTEMPTS = 3
POLL_SECONDS = 0.02
LOG_QUOTE_CHARACTERS = 500


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
        command: Sequence[str] | None = None,
    ) -> None:
        """``port`` None chooses a free port; ``extra_arguments`` are appended to the command.

        ``login``: user and password with the rights for PING and INFO, needed when an ACL in the arguments restricts
        the default user. ``command`` runs in place of all that, on ``port``.
        """
        self._command = command
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

    def _words(self) -> Sequence[str]:
        if self._command is not None:
            return self._command
        program, *arguments = redis_server_command(self.port, self._directory)
        if self._persistent:
            arguments += ["--appendonly", "yes"]  # of two, the last one counts
        return [str(self._binary or program), *arguments, *self._extra_arguments]

    def _spawn(self) -> None:
        # subprocess, not asyncio's: the process must outlive the event loop that started it.
        self._process = subprocess.Popen(
            self._words(),
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
