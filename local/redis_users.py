"""The Redis users of the local stack: each service has exactly its rights of a deployment in a cluster.

A missing right therefore shows here first. The default user needs no password, because the port is on loopback.
"""

from __future__ import annotations

from local.redis_server import find_redis_server, redis_version
from shared.redis.rights import SERVICES, user_rules

PASSWORD = "local"


def user_arguments(cluster: str) -> list[str]:
    """Arguments of redis-server that define the users. Raises ConfigurationError."""
    selectors = redis_version(find_redis_server()) >= (7,)
    rules = user_rules(cluster, dict.fromkeys(SERVICES, PASSWORD), selectors=selectors)
    return [word for rule in rules for word in ("--user", *rule.split(" "))]


def address_of(service: str, port: int) -> str:
    """The REDIS_URL of one service."""
    return f"redis://{service}:{PASSWORD}@127.0.0.1:{port}/0"
