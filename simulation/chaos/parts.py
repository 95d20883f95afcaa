"""The parts of a running stack as faults reach them: signals to processes, commands to Redis, requests to AWS."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from local.stack import Stack
from simulation.chaos.proxy import Proxy
from simulation.faults.fault import When

REQUEST_SECONDS = 10.0
CALLBACKS_PER_SECOND = 200.0
"""How many callbacks of a busy process are taken for a second, when a kill is to strike after so many."""


def later(seconds: float, act: Callable[..., object], *arguments: object) -> None:
    """Call ``act`` after ``seconds``."""
    asyncio.get_running_loop().call_later(seconds, act, *arguments)


class RealProcess:
    """One service of the stack; the supervisor starts it again."""

    def __init__(self, stack: Stack, part: str, url: str = "") -> None:
        self._stack, self._part, self._url = stack, part, url

    @property
    def starts(self) -> int:
        """How often it was started again."""
        return self._stack.running().part(self._part).restarts

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._stack.running().part(self._part).process.alive()

    def _send(self, number: int) -> None:
        self._stack.running().part(self._part).process.send(number)

    def kill(self) -> None:
        """SIGKILL."""
        self._send(signal.SIGKILL)

    def kill_after(self, callbacks: int) -> None:
        """SIGKILL after about as long as so many callbacks take."""
        later(callbacks / CALLBACKS_PER_SECOND, self.kill)

    def terminate(self) -> None:
        """SIGTERM."""
        self._send(signal.SIGTERM)

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after ``seconds`` for the same process."""
        process = self._stack.running().part(self._part).process
        process.send(signal.SIGSTOP)
        later(seconds, process.send, signal.SIGCONT)

    def skew(self, seconds: float) -> None:
        """The clock of a real process cannot be changed alone; its faults are not in the scenario."""

    def end_loop(self, choice: float) -> None:
        """No loop of a real process can be ended alone; the fault is not in the scenario."""

    def unready(self) -> list[str]:
        """Why the process is not ready."""
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=REQUEST_SECONDS):
                return []
        except urllib.error.HTTPError as error:
            return [error.read().decode(errors="replace")[:500]]
        except OSError as error:
            return [str(error)]


class RealRedis:
    """The Redis of the stack: its faults, and direct reads for the promises."""

    def __init__(self, stack: Stack, url: str) -> None:
        self._process = RealProcess(stack, "redis")
        self._redis = Redis.from_url(url, socket_timeout=REQUEST_SECONDS, protocol=2)

    def restart(self, *, keep_data: bool, down_seconds: float = 0.0) -> None:
        """Without its data: SIGKILL. With them: every connection breaks, as at a restart that loads a file."""
        if keep_data:
            self._try("CLIENT", "KILL", "TYPE", "normal")
        else:
            self._process.kill()

    def fail_over(self, lost_seconds: float) -> None:
        """One server cannot lose a second; this fault is not in the scenario."""

    def flush(self) -> None:
        """Empty it."""
        self._try("FLUSHALL")

    def stall(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT."""
        self._process.pause(seconds)

    def set_out_of_memory(self, full: bool) -> None:
        """A limit of one byte, and none."""
        self._try("CONFIG", "SET", "maxmemory", "1" if full else "0")

    def set_disk_full(self, full: bool) -> None:
        """The stack's Redis saves nothing; this fault is not in the scenario."""

    def drop_connections(self, service: str) -> None:
        """Break the connections of one service."""
        self._try("CLIENT", "KILL", "USER", service)

    def _try(self, *words: str) -> None:
        try:
            self._redis.execute_command(*words)  # type: ignore[no-untyped-call]
        except RedisError:
            return  # another fault of Redis is under way

    # Reads

    def execute(self, *words: str | int) -> Any:
        """The raw reply to one command."""
        return self._redis.execute_command(*words)  # type: ignore[no-untyped-call]

    def hash(self, key: str) -> dict[bytes, bytes]:
        """The fields of a hash."""
        return dict(self._redis.hgetall(key))  # type: ignore[arg-type]

    def get(self, key: str) -> bytes | None:
        """A string."""
        return self._redis.get(key)  # type: ignore[return-value]

    def keys(self, prefix: str = "") -> list[str]:
        """The names of the keys that begin with ``prefix``."""
        return sorted(key.decode() for key in self._redis.keys(f"{prefix}*"))  # type: ignore[union-attr]

    def length(self, stream: str) -> int:
        """Entries of a stream."""
        return int(self._redis.xlen(stream))

    def members(self, key: str) -> dict[bytes, float]:
        """A sorted set."""
        return dict(self._redis.zrange(key, 0, -1, withscores=True))  # type: ignore[arg-type]

    def groups(self, stream: str) -> list[str]:
        """The names of the stream's groups."""
        if not self._redis.exists(stream):
            return []
        return sorted(info["name"].decode() for info in self._redis.xinfo_groups(stream))

    def pending(self, stream: str, group: str) -> list[Any]:
        """Entries that were delivered and not acknowledged."""
        return list(self._redis.xpending_range(stream, group, "-", "+", 1_000))

    def unread(self, stream: str, group: str) -> int:
        """Entries that the group has not received."""
        found = [one for one in self._redis.xinfo_groups(stream) if one["name"].decode() == group]
        last = found[0]["last-delivered-id"].decode() if found else "0"
        return len(self._redis.xrange(stream, f"({last}", "+"))  # type: ignore[arg-type]


class RealAws:
    """The emulator of the stack."""

    def __init__(self, url: str) -> None:
        self._url = url

    def control(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """POST to the control endpoint; {} when it refuses, as for an order that no instance matches."""
        return self._ask(path, json.dumps(body).encode())

    def mix_messages(self, copies: int, seconds: float) -> None:
        """The emulator of a stack delivers in order; this fault is not in the scenario."""

    def instances(self) -> list[Mapping[str, Any]]:
        """The instance list."""
        return list(self._ask("instances", None).get("instances", ()))

    def _ask(self, path: str, data: bytes | None) -> Mapping[str, Any]:
        request = urllib.request.Request(f"{self._url}/_dovetail/{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError:
            return {}


class RealNetwork:
    """Connections of services: to AWS through the proxy, to Redis by the server."""

    def __init__(self, proxy: Proxy, redis: RealRedis) -> None:
        self._proxy, self._redis = proxy, redis

    def cut(self, a: str, b: str, when: When) -> None:
        """The next request to AWS is cut; at Redis the connections of the service break."""
        if b == "aws":
            self._proxy.cut(when)
        else:
            self._redis.drop_connections(a.rpartition("-")[0])

    def partition(self, a: str, b: str, seconds: float) -> None:
        """No byte passes."""
        self._proxy.hold(seconds)

    half_open = partition

    def latency(self, a: str, b: str, delay_seconds: float, seconds: float) -> None:
        """Everything takes longer."""
        self._proxy.delay(delay_seconds, seconds)

    def slow_reader(self, party: str, seconds: float) -> None:
        """Answers take a second longer."""
        self._proxy.delay(1.0, seconds)
