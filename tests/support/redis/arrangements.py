"""Real servers as managed services and administrators arrange them: a cluster, with TLS or without, and Sentinel.

All have the users and rights of ``guarded``. Every server has a plain port too, on which the test finds it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.errors import DovetailError
from shared.redis.bus import connect
from shared.redis.bus.connection import call, key_prefix
from shared.redis.rights import acl_file
from tests.support.redis.certificates import certify
from tests.support.redis.guarded import ADMIN, CLUSTER, PASSWORDS
from tests.support.redis.server import RedisServer, free_loopback_port
from tests.support.waiting import wait_until

SLOTS = 16_384
NODES = 3
SERVICE = "dovetail"
"""The name of the primary in Sentinel."""
PREFIX = key_prefix(CLUSTER)


async def ask(url: str, *words: str) -> Any:
    """One command of the administrator's, to this very server."""
    client = connect(url)
    try:
        return await call(client, words[0], *words)
    finally:
        await client.aclose()


@dataclass
class Member:
    """One server of an arrangement. ``port`` is the one for clients."""

    server: RedisServer
    port: int

    async def ask(self, *words: str) -> Any:
        return await ask(self.server.url_of(*ADMIN), *words)


@asynccontextmanager
async def members(
    folder: Path, binary: Path, count: int, *, clustered: bool = False, tls: bool = False
) -> AsyncIterator[list[Member]]:
    """So many servers with all users."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    name, password = ADMIN
    users = acl_file(CLUSTER, PASSWORDS)
    (folder / "users.acl").write_text(f"{users}user {name} on >{password} ~* &* +@all\n")
    own = [
        *("--aclfile", str(folder / "users.acl"), "--masteruser", name, "--masterauth", password),
        *("--repl-diskless-sync-delay", "0"),
    ]
    if tls:
        certify(folder)
    async with AsyncExitStack() as stack:
        found = []
        for number in range(count):
            secure = free_loopback_port()
            arguments = _clustered() if clustered else []
            server = RedisServer(
                folder / str(number),
                binary=binary,
                extra_arguments=[*own, *arguments, *(_tls(folder, secure) if tls else ())],
                login=ADMIN,
            )
            await stack.enter_async_context(server)
            found.append(Member(server, secure if tls else server.port))
        yield found


def _clustered() -> list[str]:
    """The port for the other nodes is usually that for clients plus 10,000, which may be none."""
    port = str(free_loopback_port())
    return ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", port]


def _tls(folder: Path, port: int) -> list[str]:
    return [
        *("--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cluster", "yes", "--tls-replication", "yes"),
        *("--tls-cert-file", f"{folder}/tls.crt", "--tls-key-file", f"{folder}/tls.key"),
        *("--tls-ca-cert-file", f"{folder}/ca.crt"),
    ]


@dataclass
class Cluster:
    """``owner`` has the slot of our keys, ``replica`` follows it, and the others have the other slots."""

    owner: Member
    replica: Member
    others: list[Member]
    query: str

    def url(self, user: str, *through: Member) -> str:
        """REDIS_URL of a user, through these nodes."""
        scheme = "rediss" if self.query else "redis"
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in through)
        return f"{scheme}://{user}:{PASSWORDS[user]}@{hosts}/0{self.query}"

    async def fail_over(self) -> None:
        """The replica takes the slot; the owner becomes its replica."""
        await self.replica.ask("CLUSTER", "FAILOVER")

        async def has_changed() -> bool:
            return bool((await self.owner.ask("ROLE"))[0] == b"slave")

        await wait_until(has_changed, "the owner is a replica")
        self.owner, self.replica = self.replica, self.owner


@asynccontextmanager
async def cluster(folder: Path, binary: Path, *, tls: bool = False) -> AsyncIterator[Cluster]:
    """Three nodes with a third of the slots each, and a replica of the one with our keys."""
    async with members(folder, binary, NODES + 1, clustered=True, tls=tls) as found:
        *nodes, replica = found
        for number, node in enumerate(nodes):
            first, last = SLOTS * number // NODES, SLOTS * (number + 1) // NODES - 1
            await node.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
            await node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        for one in found[1:]:
            bus = await one.ask("CONFIG", "GET", "cluster-port")
            await found[0].ask("CLUSTER", "MEET", "127.0.0.1", str(one.port), bus[1].decode())
        slot = int(await nodes[0].ask("CLUSTER", "KEYSLOT", PREFIX))
        owner = nodes[slot * NODES // SLOTS]
        await _replicate(replica, owner)
        await _complete(found)
        query = f"?ssl_ca_certs={folder}/ca.crt" if tls else ""
        yield Cluster(owner, replica, [one for one in nodes if one is not owner], query)


async def _replicate(replica: Member, owner: Member) -> None:
    identity = (await owner.ask("CLUSTER", "MYID")).decode()

    async def are_met() -> bool:
        return identity.encode() in await replica.ask("CLUSTER", "NODES")

    async def follows() -> bool:
        return bool((await replica.ask("ROLE"))[3] == b"connected")

    await wait_until(are_met, "the nodes know each other")
    await replica.ask("CLUSTER", "REPLICATE", identity)
    await wait_until(follows, "the replica follows its owner")


async def _complete(all_nodes: list[Member]) -> None:
    """Every node hears by itself who has which slots, and refuses commands until it knows the owner of each."""

    async def is_complete() -> bool:
        states = [await one.ask("CLUSTER", "INFO") for one in all_nodes]
        return all(b"cluster_state:ok" in one for one in states)

    await wait_until(is_complete, "every node knows the whole cluster")


@dataclass
class Watched:
    """A primary and a replica that Sentinel watches."""

    primary: Member
    replica: Member
    sentinel: RedisServer

    def url(self, user: str) -> str:
        """REDIS_URL of a user; the first sentinel of the list is down."""
        hosts = f"127.0.0.1:{free_loopback_port()},127.0.0.1:{self.sentinel.port}"
        return f"redis+sentinel://{user}:{PASSWORDS[user]}@{hosts}/{SERVICE}/0"

    async def fail_over(self) -> None:
        """Sentinel makes the replica the primary."""

        async def is_accepted() -> bool:
            try:
                await ask(self.sentinel.url, "SENTINEL", "FAILOVER", SERVICE)
            except DovetailError:
                return False  # it asks the replica every few seconds, and knows only then that it may take over
            return True

        await wait_until(is_accepted, "Sentinel begins a failover")

        async def has_changed() -> bool:
            try:
                return bool((await self.replica.ask("ROLE"))[0] == b"master")
            except DovetailError:
                return False  # Sentinel ends all connections to a server whose role it changes

        await wait_until(has_changed, "the replica is the primary")


@asynccontextmanager
async def watched(folder: Path, binary: Path) -> AsyncIterator[Watched]:
    """One sentinel is enough for its own quorum."""
    async with members(folder, binary, 2) as (primary, replica):
        await replica.ask("REPLICAOF", "127.0.0.1", str(primary.port))
        name, password = ADMIN
        port = free_loopback_port()
        configuration = folder / "sentinel.conf"
        configuration.write_text(
            f"bind 127.0.0.1\nport {port}\ndir {folder}\nlogfile sentinel.log\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} 1\n"
            f"sentinel auth-user {SERVICE} {name}\nsentinel auth-pass {SERVICE} {password}\n"
            f"sentinel down-after-milliseconds {SERVICE} 60000\n"
        )
        command = [str(binary), str(configuration), "--sentinel"]
        async with RedisServer(folder, port=port, command=command) as sentinel:

            async def is_known() -> bool:
                follows = await ask(sentinel.url, "SENTINEL", "REPLICAS", SERVICE)
                return bool(follows) and (await replica.ask("ROLE"))[3] == b"connected"

            await wait_until(is_known, "Sentinel knows the replica")
            yield Watched(primary, replica, sentinel)
