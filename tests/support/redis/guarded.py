"""A real redis-server as a cluster has it: everybody with a password and rights of his own, nobody without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.redis_server import redis_version
from shared.redis.bus import connect
from shared.redis.bus.connection import call
from shared.redis.rights import USERS, acl_file
from tests.support.redis.server import RedisServer

CLUSTER = "guarded"
ADMIN = ("admin", "admins-password")
"""Of the tests: it sees what was refused."""
PASSWORDS = {user: f"password-of-{user}" for user in USERS}


@dataclass
class GuardedRedis:
    """``selectors``: it is 7.0 or newer, and keeps rights apart."""

    server: RedisServer
    selectors: bool

    def url(self, user: str) -> str:
        """REDIS_URL of a service, the operator or ``admin``."""
        return self.server.url_of(user, dict([ADMIN], **PASSWORDS)[user])

    async def refused(self) -> list[str]:
        """What was refused so far: user and command or key."""
        return await refused_by(self.url("admin"))


async def refused_by(url: str) -> list[str]:
    """The same of the Redis at ``url``, whose user may ask."""
    client = connect(url)
    try:
        entries = await call(client, "read what was refused", "ACL", "LOG")
    finally:
        await client.aclose()
    found = [dict(zip(one[::2], one[1::2], strict=True)) for one in entries]
    return [f"{one[b'username'].decode()}: {one[b'object'].decode()}" for one in found]


@contextmanager
def guarded_redis(
    folder: Path, binary: Path, arguments: tuple[str, ...] = ()
) -> Iterator[GuardedRedis]:
    """Run one; ``arguments`` come before the ACL."""
    selectors = redis_version(binary) >= (7,)
    users = acl_file(CLUSTER, PASSWORDS, selectors=selectors)
    name, password = ADMIN
    file = folder / "users.acl"
    file.write_text(f"{users}user {name} on >{password} ~* +@all\n")
    options = (*arguments, "--aclfile", str(file))
    server = RedisServer(folder, binary=binary, extra_arguments=options, login=ADMIN)
    asyncio.run(server.start())
    try:
        yield GuardedRedis(server, selectors)
    finally:
        asyncio.run(server.stop())
