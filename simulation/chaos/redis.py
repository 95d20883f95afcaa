"""The Redis of a running stack: its faults, and direct reads for the promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from simulation.chaos.processes import REQUEST_SECONDS, RealProcess
from simulation.chaos.ways.proxy import Proxy

MOST_PENDING = 1_000


class RealRedis:
    """``proxy``: the services' way to it; promises read it directly. Reads raise RedisError while it is away.

    Orders are carried out one after the other in a thread, because a Redis that is stopped answers late.
    """

    def __init__(self, process: RealProcess, url: str, proxy: Proxy) -> None:
        self.process, self._proxy = process, proxy
        self._redis = Redis.from_url(url, socket_timeout=REQUEST_SECONDS, protocol=2)
        self._orders = ThreadPoolExecutor(1, thread_name_prefix="orders to Redis")

    def close(self) -> None:
        """Forget what is not done yet."""
        self._orders.shutdown(wait=False, cancel_futures=True)
        self._redis.close()

    # Faults

    def restart(self, *, keep_data: bool, down_seconds: float = 0.0) -> None:
        """Away for ``down_seconds``; without its data by SIGKILL, with them as a server that loads a file."""
        self._proxy.down(down_seconds)
        if not keep_data:
            self.process.kill()

    def flush(self) -> None:
        """Empty it."""
        self._order("FLUSHALL")

    def stall(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT."""
        self.process.pause(seconds)

    def set_out_of_memory(self, full: bool) -> None:
        """A limit of one byte, and none."""
        self._order("CONFIG", "SET", "maxmemory", "1" if full else "0")

    def set_disk_full(self, full: bool) -> None:
        """The stack's Redis saves nothing; this fault is not in the scenario."""

    def _order(self, *words: str) -> None:
        self._orders.submit(self._try, *words)

    def _try(self, *words: str) -> None:
        try:
            self.execute(*words)
        except RedisError:
            return  # Another fault of Redis is under way.

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
        """Entries that were delivered and not acknowledged; none without the group."""
        if group not in self.groups(stream):
            return []
        return list(self._redis.xpending_range(stream, group, "-", "+", MOST_PENDING))

    def unread(self, stream: str, group: str) -> int:
        """Entries that the group has not received."""
        known = self._redis.xinfo_groups(stream) if self._redis.exists(stream) else []
        found = [one for one in known if one["name"].decode() == group]
        last = found[0]["last-delivered-id"].decode() if found else "0"
        return len(self._redis.xrange(stream, f"({last}", "+"))  # type: ignore[arg-type]
