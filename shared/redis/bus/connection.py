"""Connections to Redis: client settings that are safe for a queue, and Redis errors as Dovetail errors.

redis-py's defaults are wrong for a queue (measured): ten hidden retries turned 1,000 publishes into 1,094 entries when
10 % of the replies were lost, and a BLOCK longer than the 5 s socket timeout failed after 58 s of hidden retries. So
the client does not retry (each caller decides whether a repeat is safe), RESP2 is pinned because stream replies differ
by protocol, replies are bytes, and the pool waits instead of failing when it is full. Its own time limits are off: they
cost a task and three timers for each command, where ``redis_errors`` sets one timer around all steps of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from shared import errors
from shared.concurrency.backoff import Backoff
from shared.redis.bus.places import KINDS, parse_target

COMMAND_TIMEOUT_SECONDS = 5.0
"""Longest time of one command, with the wait for a connection."""
ANSWER_SECONDS = 3.0
"""The same of a blocking read, after the time for which it blocks."""
_SENTINEL_TIMEOUTS = {
    "socket_timeout": COMMAND_TIMEOUT_SECONDS,
    "socket_connect_timeout": COMMAND_TIMEOUT_SECONDS,
}
BLOCK_MILLISECONDS = 4000
"""Of reads that wait for messages: a connection that is half open is noticed three seconds later."""
POOL_CONNECTIONS = 8
LONGEST_CLUSTER = 100
RECONNECT_PAUSES_SECONDS = (0.1, 5.0)
"""First and longest pause between two attempts to reach an unreachable Redis."""

REDIS_FAILURES = (errors.TransientError, errors.Unauthorized)
"""The errors that a loop catches and retries: an outage of Redis never ends a loop."""

_NOT_NOW = (
    exceptions.BusyLoadingError,
    exceptions.MaxConnectionsError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.ClusterError,
)


class GroupMissing(errors.DovetailError):
    """The stream or its consumer group is gone: someone emptied Redis (F9)."""


def reconnect_pauses(random: Random | None) -> Backoff:
    """The pauses of one loop between its attempts to reach Redis."""
    first, longest = RECONNECT_PAUSES_SECONDS
    return Backoff(random, first=first, cap=longest)


def _is_special(character: str) -> bool:
    return character in "{}:*?[]\\" or character.isspace() or not character.isprintable()


def key_prefix(cluster: str) -> str:
    """The prefix of every key of one cluster. The braces keep all of them in one hash slot. In the rights of Redis'
    users it is a pattern: a wildcard would open the keys of other clusters."""
    if not 0 < len(cluster) <= LONGEST_CLUSTER or any(map(_is_special, cluster)):
        raise errors.ConfigurationError(
            f"CLUSTER_NAME {cluster[:LONGEST_CLUSTER]!r} must be set, have at most {LONGEST_CLUSTER} characters, and "
            "hold no braces, colons, spaces or wildcards"
        )
    return f"dovetail:{{{cluster}}}:"


def shown(url: str) -> str:
    """The URL without its password and options, for people and logs."""
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return urlunsplit((parts.scheme, f"{name}@{place}" if name else place, parts.path, "", ""))


def connect(url: str, *, prefix: str = "", connections: int = POOL_CONNECTIONS) -> Redis:
    """A client for ``url``, as ``parse_target`` reads it. Opens no connection yet.

    ``prefix``: of all keys, by which a connection to a cluster finds its node.

    Replies come as the server sends them: bytes, int, None, flat lists. Do not use its ``scan_iter``
    family, which needs parsed replies.

    Raises ConfigurationError for a URL that cannot be read.
    """
    try:
        pool = _pool(url, prefix, connections)
    except (ValueError, TypeError) as error:
        raise errors.ConfigurationError(
            "REDIS_URL cannot be read: use redis://[user:password@]host:port/db, rediss:// for TLS, or "
            "redis+sentinel://[user:password@]sentinel:port,…/service/db; options after ? are those of redis-py"
        ) from error
    client = Redis.from_pool(pool)
    # Replies stay as the server sends them: redis-py's parsers drop the ids of deleted entries.
    client.response_callbacks.clear()
    return client


def _pool(url: str, prefix: str, connections: int) -> BlockingConnectionPool:
    """Raises ValueError or TypeError for a URL that cannot be read, or with an option that is none."""
    target = parse_target(url, _SENTINEL_TIMEOUTS)
    options = {
        "max_connections": connections,
        "timeout": None,
        "socket_timeout": None,
        "socket_connect_timeout": COMMAND_TIMEOUT_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": False,
        # Otherwise redis-py sends CLIENT SETINFO, a command that no service's ACL allows.
        "driver_info": None,
        **target.options,
    }
    if target.place is not None:
        kind = KINDS[options.pop("connection_class", Connection)]
        options |= {"connection_class": kind, "place": target.place, "prefix": prefix}
    pool = _Pool(**options)
    pool.make_connection()  # type: ignore[no-untyped-call]  # it opens none, but refuses unknown options
    return pool


class _Pool(BlockingConnectionPool):
    """Without the library's measurements and time limit, which take half of what a connection from the pool costs, and
    without its lock where nobody waits."""

    _waiting = 0
    """Callers that wait for a connection."""

    async def get_connection(self, *_words: object, **_options: object) -> Any:
        """A connection that is ready for a command; waits while all are in use."""
        if not self.can_get_connection():
            await self._wait()
        connection = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            with suppress(exceptions.ConnectionError):  # it is opened again below
                if connection.is_connected and not await connection.can_read():
                    return connection
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def _wait(self) -> None:
        """Until a connection is free."""
        self._waiting += 1
        try:
            async with self._condition:
                await self._condition.wait_for(self.can_get_connection)
        finally:
            self._waiting -= 1

    async def release(self, connection: Any) -> None:
        """Give a connection back to those that wait."""
        try:
            if connection.should_reconnect():
                await connection.disconnect()
        finally:
            self._in_use_connections.remove(connection)
        self._available_connections.append(connection)
        if self._waiting:
            async with self._condition:
                self._condition.notify()


async def call(
    redis: Redis,
    operation: str,
    *command: str | bytes | float,
    seconds: float = COMMAND_TIMEOUT_SECONDS,
) -> Any:
    """One command and its raw reply: bytes, int, None or lists of these.

    ``operation`` names the command in error texts; ``seconds``: its longest time. Raises as ``redis_errors``.
    """
    # Not execute_command: it adds retries, parsing and measuring, which are not used here and take as long as the rest.
    pool = redis.connection_pool
    async with redis_errors(operation, seconds):
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.send_command(*command)
            return await connection.read_response()
        finally:
            await pool.release(connection)


async def blocking_call(
    redis: Redis, operation: str, milliseconds: int, *command: str | bytes | float
) -> Any:
    """As ``call``, for a read that blocks for ``milliseconds``."""
    return await call(redis, operation, *command, seconds=milliseconds / 1000 + ANSWER_SECONDS)


async def server_time(redis: Redis) -> float:
    """Seconds since the epoch by Redis' own clock: the one for times that one service writes and another compares.

    Raises as ``redis_errors``.
    """
    seconds, micros = await call(redis, "read the time", "TIME")
    return int(seconds) + int(micros) / 1e6


def pairs(flat: Sequence[Any]) -> dict[bytes, Any]:
    """A flat reply ``[name, value, name, value …]`` as a dict."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


class redis_errors:
    """Bound what one command takes, and turn redis-py's errors into the family of shared.errors.

    Raises Unreachable (the outcome is unknown, also after ``seconds``), Unavailable, Unauthorized or
    GroupMissing; and CancelledError when the task was cancelled meanwhile: redis-py 8.1 sometimes swallows a
    cancellation and returns a reply (seen within a few dozen cancelled consumers), which would leave a cancelled loop
    running. A class, because a generator takes three times as long, at each command.
    """

    __slots__ = ("_before", "_operation", "_seconds", "_timeout")

    def __init__(self, operation: str, seconds: float = COMMAND_TIMEOUT_SECONDS) -> None:
        self._operation, self._seconds = operation, seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        self._before = _cancellations()
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, asyncio.CancelledError) and _cancellations() > self._before:
            error = asyncio.CancelledError()
        if error is None:
            await self._timeout.__aexit__(None, None, None)
            return
        with translated(self._operation, self._seconds):
            await self._timeout.__aexit__(type(error), error, traceback)
            raise error


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


@contextmanager
def translated(operation: str, seconds: float = COMMAND_TIMEOUT_SECONDS) -> Iterator[None]:
    """Turn redis-py's errors into the family of shared.errors: for a reply that is here already."""
    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
        raise errors.Unauthorized(
            f"Redis refused {operation}: {error}", operation=operation
        ) from error
    except _NOT_NOW as error:
        raise errors.Unavailable(
            f"Redis cannot {operation} now: {error}", operation=operation
        ) from error
    except TimeoutError as error:
        raise errors.Unreachable(
            f"no answer to {operation} within {seconds:g} s", operation=operation
        ) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        raise errors.Unreachable(
            f"no answer to {operation}: {error}", operation=operation
        ) from error
    except exceptions.RedisError as error:
        raise _refused(operation, error) from error


def _refused(operation: str, error: exceptions.RedisError) -> errors.DovetailError:
    text = str(error)
    # Redis 7.0 wakes a blocked reader of a deleted stream with UNBLOCKED; 6.2 answers NOGROUP later.
    if text.startswith("UNBLOCKED") or "NOGROUP" in text:
        return GroupMissing(text, operation=operation)
    return errors.Unavailable(f"Redis refused {operation}: {text}", operation=operation)
