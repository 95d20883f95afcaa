"""``dovetail secrets``: generate the Secrets that ``deploy/`` needs: Redis passwords and the key of the mirror."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Annotated, Any

import typer

from cli.manifests.yaml_writing import yaml_text
from shared.errors import ConfigurationError
from shared.redis.bus import connect
from shared.redis.bus.places import is_address
from shared.redis.rights import AGENT, USERS, acl_file, rights_of

NAMESPACE = "dovetail"
AGENTS_NAMESPACE = "dovetail-agents"
MIRROR_KEY_HOLDERS = tuple(
    user for user in USERS if any("mirror:*" in right.keys for right in rights_of(user))
)
"""The services that write or read the mirror."""
CA_FILE = "/etc/dovetail/redis-ca/ca.crt"
SECRET_BYTES = 32
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE = re.compile(r"[0-9A-Za-z._-]+")


def secrets(
    cluster_name: Annotated[
        str, typer.Option("--cluster-name", help="CLUSTER_NAME of the services.")
    ],
    namespace: Annotated[str, typer.Option(help="Namespace of the services.")] = NAMESPACE,
    host: Annotated[
        str,
        typer.Option(
            help="Name or address of Redis, and its port; several with commas. Without it that of the manifests."
        ),
    ] = "",
    sentinel: Annotated[
        str, typer.Option(help="The name of Redis in Sentinel, whose addresses --host has.")
    ] = "",
    tls: Annotated[
        bool, typer.Option("--tls", help=f"rediss://; its CA is mounted at {CA_FILE}.")
    ] = False,
    agents: Annotated[
        str,
        typer.Option(
            "--agents-namespace", help="Namespace of the agents on nodes; empty: there are none."
        ),
    ] = AGENTS_NAMESPACE,
) -> None:
    """Print Secrets with new passwords for every user of Redis, and a new key for the mirror.

    The passwords are not stored anywhere else: apply the Secrets at once. Redis and the services read them when they
    start, so restart all of them after a second run. The Secret dovetail-redis-acl holds the rights of each user and
    only digests of the passwords. Redis 7.0 or newer reads it.

    Examples:

      dovetail secrets --cluster-name my-cluster | kubectl apply -f -

      kubectl -n dovetail rollout restart deployment
    """
    passwords = {user: token_urlsafe(SECRET_BYTES) for user in USERS}
    _check_namespace("--namespace", namespace)
    if agents:
        _check_namespace("--agents-namespace", agents)
    redis = RedisAddress(host or f"dovetail-redis.{namespace}.svc:6379", tls, sentinel)
    _check(redis)
    written = documents(
        cluster_name, passwords, token_urlsafe(SECRET_BYTES), redis, namespace, agents
    )
    typer.echo("---\n".join(map(yaml_text, written)), nl=False)


@dataclass(frozen=True)
class RedisAddress:
    """Where Redis is. ``host``: with the port, several with commas.

    ``sentinel``: the name of Redis in Sentinel, whose hosts these are then; empty: the hosts are those of Redis.
    """

    host: str
    tls: bool = False
    sentinel: str = ""

    def url(self, user: str, password: str) -> str:
        """REDIS_URL of a user."""
        scheme = "rediss" if self.tls else "redis"
        query = f"?ssl_ca_certs={CA_FILE}" if self.tls else ""
        watched, path = ("+sentinel", f"{self.sentinel}/0") if self.sentinel else ("", "0")
        return f"{scheme}{watched}://{user}:{password}@{self.host}/{path}{query}"


def _check_namespace(option: str, name: str) -> None:
    """Raises ConfigurationError for a name that Kubernetes refuses."""
    if not _NAMESPACE.fullmatch(name):
        raise ConfigurationError(
            f"{option} {name!r}: give the name of a namespace, such as dovetail: lower-case letters, digits and "
            "hyphens inside, at most 63; `kubectl get namespaces` lists what there is"
        )


def _check(redis: RedisAddress) -> None:
    """Raises ConfigurationError for an address that the services could not read."""
    if redis.sentinel and not _SERVICE.fullmatch(redis.sentinel):
        raise ConfigurationError(
            f"--sentinel {redis.sentinel!r}: give the name that `sentinel monitor` has: letters, digits, '.', '-', '_'"
        )
    try:
        if not all(map(is_address, redis.host.split(","))):
            raise ConfigurationError("no HOST:PORT")
        connect(redis.url("user", "password"))
    except ConfigurationError as error:
        raise ConfigurationError(
            f"--host {redis.host!r}: give HOST:PORT, such as redis.example.com:6379; several with commas"
        ) from error


def documents(
    cluster: str,
    passwords: Mapping[str, str],
    mirror_key: str,
    redis: RedisAddress,
    namespace: str = NAMESPACE,
    agents: str = AGENTS_NAMESPACE,
) -> Iterator[dict[str, Any]]:
    """The Secret of the Redis server, then one per user. Raises ConfigurationError for an invalid cluster name.

    ``agents``: the namespace of the agents; empty: there are none.
    """
    yield _secret("acl", namespace, {"users.acl": acl_file(cluster, passwords)})
    for user, password in passwords.items():
        values = {"REDIS_URL": redis.url(user, password)}
        if user in MIRROR_KEY_HOLDERS:
            values["MIRROR_KEY"] = mirror_key
        place = agents if user == AGENT else namespace
        if place:
            yield _secret(user, place, values)


def _secret(name: str, namespace: str, values: Mapping[str, str]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "dovetail"}
    metadata = {"name": f"dovetail-redis-{name}", "namespace": namespace, "labels": labels}
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return {**head, "type": "Opaque", "stringData": dict(values)}
