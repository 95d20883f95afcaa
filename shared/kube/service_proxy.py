"""Requests to a Service inside the cluster through the API server's subresource ``services/proxy``.

The API server authenticates the caller, checks the right to the subresource, and removes the header Authorization; the
Service sees the other headers. An answer may be the API server's own (a Status: no right, no such Service, no address)
or the Service's; only the first kind raises.

A role that allows this names the Service as the path does: ``NAME:PORT``. Verbs: ``get`` for GET, ``create`` for POST.
Errors: Unreachable, Unauthorized (its text names the missing rule), NotFound, Unavailable.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
import orjson

from shared.errors import Unreachable
from shared.kube.resources import SERVICES
from shared.kube.transport.connection import Answer, Connection
from shared.kube.transport.statuses import Call, error_of

CONNECT_SECONDS = 5.0
ERROR_LIMIT_BYTES = 64 * 2**10
_VERBS = {"GET": "get", "POST": "create"}


@dataclass(frozen=True)
class ServiceAddress:
    """A Service and one of its ports, by name or number."""

    namespace: str
    name: str
    port: str

    def path(self, rest: str) -> str:
        """The path at the API server of ``rest``, which begins with a slash and may have a query."""
        named = quote(f"{self.name}:{self.port}", safe=":")
        place = quote(self.namespace, safe="")
        return f"/api/v1/namespaces/{place}/services/{named}/proxy{rest}"

    def call(self, method: str) -> Call:
        """The request as roles and error texts name it."""
        name = f"{self.name}:{self.port}"
        return Call(_VERBS[method], SERVICES, name, self.namespace, "proxy")


@dataclass(frozen=True)
class ServiceAnswer:
    """What the Service answered. The names of ``headers`` are found whatever their case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ServiceProxy:
    """Requests on one connection to an API server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def exchange(
        self,
        service: ServiceAddress,
        rest: str,
        body: object = None,
        *,
        headers: Mapping[str, str],
        seconds: float,
        limit: int,
    ) -> ServiceAnswer:
        """GET, or POST of ``body`` as JSON. At most ``limit`` bytes of the answer are read."""
        method = "GET" if body is None else "POST"
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        async with self.opened(
            service, rest, method, body, headers=headers, limits=limits
        ) as answer:
            read = await _read(answer, limit)
            return ServiceAnswer(answer.status, read, answer.headers)

    @asynccontextmanager
    async def opened(
        self,
        service: ServiceAddress,
        rest: str,
        method: str = "GET",
        body: object = None,
        *,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> AsyncGenerator[Answer, None]:
        """The Service's answer, to be read as it arrives."""
        call, path = service.call(method), service.path(rest)
        async with self._connection.raw(
            call, method, path, headers=headers, timeout=limits, body=body
        ) as answer:
            if answer.status >= 400 and answer.content_type == "application/json":
                answer = await _unless_status(call, answer)
            yield answer


async def _unless_status(call: Call, answer: Answer) -> Answer:
    """The same answer, its body read. Raises the error of a Status, which the API server wrote."""
    if (answer.content_length or 0) > ERROR_LIMIT_BYTES:
        return answer
    document = await answer.read()
    try:
        status = orjson.loads(document)
    except orjson.JSONDecodeError:
        return answer
    if isinstance(status, dict) and status.get("kind") == "Status":
        raise error_of(call, answer.status, status, answer.headers)
    return answer


async def _read(answer: Answer, limit: int) -> bytes:
    if answer.content.at_eof():
        return await answer.read()
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > limit:
            raise Unreachable(f"{answer.url.path} answers more than {limit} bytes")
    return b"".join(parts)
