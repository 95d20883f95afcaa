"""Requests that are no calls on resources: the log of a pod, and the server's time.

Errors: Unreachable, Unauthorized, NotFound, Unavailable.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from email.utils import parsedate_to_datetime

from aiohttp import ClientTimeout

from shared.kube.resources import PODS, Resource
from shared.kube.transport.connection import Connection
from shared.kube.transport.statuses import Call, error_of, parse_status

FOLLOWED = ClientTimeout(total=None, sock_connect=5.0)
"""A log that is followed may be silent for any time."""
SHORT = ClientTimeout(total=10.0)
_VERSION = Resource("", "v1", "version", "Info", False)


async def pod_log(
    connection: Connection, pod: str, namespace: str, *, tail: int, follow: bool = False
) -> AsyncGenerator[bytes, None]:
    """The last ``tail`` lines of a pod's log as bytes; with ``follow`` also what is added later."""
    call = Call("get", PODS, pod, namespace, "log")
    query = {"tailLines": str(tail), "follow": str(follow).lower()}
    path = PODS.path(namespace, pod, "log")
    async with connection.raw(
        call, "GET", path, query=query, headers={}, timeout=FOLLOWED
    ) as answer:
        if answer.status >= 400:
            status = parse_status(await answer.read())
            raise error_of(call, answer.status, status, answer.headers)
        async for chunk in answer.content.iter_any():
            yield chunk


async def server_time(connection: Connection) -> float | None:
    """The API server's clock, in whole seconds since the epoch; None when its answer has no date."""
    call = Call("read", _VERSION)
    async with connection.raw(call, "GET", "/version", headers={}, timeout=SHORT) as answer:
        return date_of(answer.headers.get("Date", ""))


def date_of(header: str) -> float | None:
    """The value of a header Date in seconds since the epoch; None for anything else."""
    try:
        found: datetime = parsedate_to_datetime(header)
    except ValueError:
        return None
    return found.timestamp()
