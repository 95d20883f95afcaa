"""``dovetail secrets``: generate the Secrets that ``deploy/`` needs: Redis passwords and the key of the mirror."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from secrets import token_urlsafe
from typing import Annotated, Any

import typer

from cli.manifests.yaml_writing import yaml_text
from shared.redis.rights import AGENT, USERS, acl_file

NAMESPACE = "dovetail"
AGENTS_NAMESPACE = "dovetail-agents"
MIRROR_KEY_HOLDERS = ("watcher", "scheduler", "interruption")
"""The services that write or read the mirror."""
CA_FILE = "/etc/dovetail/redis-ca/ca.crt"
SECRET_BYTES = 32


def secrets(
    cluster_name: Annotated[
        str, typer.Option("--cluster-name", help="CLUSTER_NAME of the services.")
    ],
    host: Annotated[
        str, typer.Option(help="Name or address of Redis, and its port.")
    ] = "dovetail-redis.dovetail.svc:6379",
    tls: Annotated[
        bool, typer.Option("--tls", help=f"rediss://; its CA is mounted at {CA_FILE}.")
    ] = False,
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
    written = documents(cluster_name, passwords, token_urlsafe(SECRET_BYTES), host=host, tls=tls)
    typer.echo("---\n".join(map(yaml_text, written)), nl=False)


def documents(
    cluster: str, passwords: Mapping[str, str], mirror_key: str, *, host: str, tls: bool = False
) -> Iterator[dict[str, Any]]:
    """The Secret of the Redis server, then one per user. Raises ConfigurationError for an invalid cluster name."""
    yield _secret("acl", NAMESPACE, {"users.acl": acl_file(cluster, passwords)})
    scheme, query = ("rediss", f"?ssl_ca_certs={CA_FILE}") if tls else ("redis", "")
    for user, password in passwords.items():
        values = {"REDIS_URL": f"{scheme}://{user}:{password}@{host}/0{query}"}
        if user in MIRROR_KEY_HOLDERS:
            values["MIRROR_KEY"] = mirror_key
        yield _secret(user, AGENTS_NAMESPACE if user == AGENT else NAMESPACE, values)


def _secret(name: str, namespace: str, values: Mapping[str, str]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "dovetail"}
    metadata = {"name": f"dovetail-redis-{name}", "namespace": namespace, "labels": labels}
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return {**head, "type": "Opaque", "stringData": dict(values)}
