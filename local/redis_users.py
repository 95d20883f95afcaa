"""The users of the local stack's Redis: each service has the rights that it has in a cluster, and no others.

So a right that is missing shows here first. Everybody else is let in without a password, as the port is on loopback.
"""

from __future__ import annotations

from local.redis_server import find_redis_server, redis_version
from shared.redis.rights import SERVICES, user_rules

PASSWORD = "local"


def user_arguments(cluster: str) -> list[str]:
    """Words of redis-server's command line. Raises ConfigurationError."""
    selectors = redis_version(find_redis_server()) >= (7,)
    rules = user_rules(cluster, dict.fromkeys(SERVICES, PASSWORD), selectors=selectors)
    return [word for rule in rules for word in ("--user", *rule.split(" "))]


def address_of(service: str, port: int) -> str:
    """Its REDIS_URL."""
    return f"redis://{service}:{PASSWORD}@127.0.0.1:{port}/0"
