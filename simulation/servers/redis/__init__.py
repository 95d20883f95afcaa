"""Redis in memory, as far as the services use it: ``shared.redis.rights`` lists their commands.

Commands come in as bytes of RESP2 (``connection``), are executed at once (``engine``) on the values of one database
(``keyspace``, ``values``), and are answered on the same connection. Time is that of the loop. ``server`` has the
faults, and reads without a connection for invariants. tests/simulation/servers compares it with the real server.
"""

from __future__ import annotations

from simulation.servers.redis.server import (
    REDIS_6,
    REDIS_7,
    Entry,
    PendingEntry,
    RedisServer,
)

__all__ = ["REDIS_6", "REDIS_7", "Entry", "PendingEntry", "RedisServer"]
