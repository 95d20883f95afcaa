"""The subresource ``proxy`` of Services: passes a request on to an address behind the Service, as a real server does.

Path: ``/api/v1/namespaces/NAMESPACE/services/[SCHEME:]NAME[:PORT]/proxy[/REST]``; PORT is a name or a number. The name
in a role's ``resourceNames`` is that whole part of the path. The credentials for this server are not passed on, and
redirects are not followed. The answer is passed on as it arrives, so streams work.

Errors: no such Service or port, a Service without addresses, an address that does not answer. Each is a Status.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import SystemRandom
from typing import Any
from urllib.parse import unquote

import aiohttp
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from local.cluster.api.authorization.attributes import Attributes, resource_attributes
from local.cluster.api.errors import ApiError, bad_request
from local.cluster.api.requests import BODY_LIMIT, Query, Target
from local.cluster.storage.store import Store

CONNECT_SECONDS = 5.0
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization"}
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
CREDENTIALS = re.compile(r"authorization|impersonate-(user|uid|group|extra-.*)")
_PATH = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/services/(?P<name>[^/]+)/proxy(?P<rest>/.*)?"
)
Document = dict[str, Any]
Pick = Callable[[Sequence[str]], str]
ANY: Pick = SystemRandom().choice


@dataclass(frozen=True)
class Proxied:
    """A request that is passed on. ``name`` as in the path; ``rest`` begins with a slash."""

    namespace: str
    name: str
    rest: str

    def attributes(self, method: str) -> Attributes:
        """What a role must allow."""
        target = Target("", "v1", self.namespace, "services", self.name, "proxy")
        return resource_attributes(method, target, Query({}))


def parse_proxied(path: str) -> Proxied | None:
    """None for every path that is no proxy. The path is as it was sent, with its escapes."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    return Proxied(unquote(found["namespace"]), unquote(found["name"]), found["rest"] or "/")


async def pass_on(store: Store, proxied: Proxied, request: Request, pick: Pick = ANY) -> Response:
    """The answer of one address behind the Service, which ``pick`` chooses. Raises ApiError 400, 404 and 503."""
    url = f"{address_of(store, proxied, pick)}{proxied.rest}"
    if request.url.query:
        url += f"?{request.url.query}"
    body = await request.body()
    if len(body) > BODY_LIMIT:
        raise ApiError(413, "RequestEntityTooLarge", f"limit is {BODY_LIMIT}")
    limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    session = aiohttp.ClientSession(auto_decompress=False, timeout=limits)
    try:
        answer = await session.request(
            request.method,
            url,
            data=body or None,
            headers=_sent(request),
            allow_redirects=False,
        )
    except (aiohttp.ClientError, OSError) as error:
        await session.close()
        text = f"error trying to reach service: {error}"
        raise ApiError(503, "ServiceUnavailable", text) from error
    return _PassedOn(session, answer)


def _sent(request: Request) -> list[tuple[str, str]]:
    """The client's headers without those that are for this server. The Host stays, as behind a real server."""
    passed = [
        (name, value)
        for name, value in request.headers.items()
        if name not in HOP_BY_HOP and name != "content-length" and not CREDENTIALS.fullmatch(name)
    ]
    client = request.client.host if request.client else ""
    return [*passed, ("X-Forwarded-For", client), ("X-Forwarded-Uri", request.url.path)]


class _PassedOn(StreamingResponse):
    """The answer, as it arrives. The connection is closed with the client's."""

    def __init__(self, session: aiohttp.ClientSession, answer: aiohttp.ClientResponse) -> None:
        super().__init__(_chunks(answer), answer.status)
        self._session = session
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in answer.headers.items()
            if name.lower() not in HOP_BY_HOP
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._session.close()


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for chunk in answer.content.iter_any():
        yield chunk


def address_of(store: Store, proxied: Proxied, pick: Pick) -> str:
    """``http://HOST:PORT`` of one ready address. Raises ApiError 400, 404 and 503."""
    scheme, name, port = _parts(proxied.name)
    service = store.get("services", name, namespace=proxied.namespace)
    wanted = _port(service, port)
    found = [
        f"{scheme}://{host}:{number}"
        for host, number in (
            *_listed(store.find("endpoints", name, namespace=proxied.namespace), wanted),
            *_selected(store, service, wanted),
        )
    ]
    if not found:
        text = f'no endpoints available for service "{proxied.name}"'
        raise ApiError(503, "ServiceUnavailable", text)
    return pick(found)


def _parts(text: str) -> tuple[str, str, str]:
    """(scheme, name, port) of ``[SCHEME:]NAME[:PORT]``. Raises ApiError 400."""
    parts = text.split(":")
    if len(parts) < 3:
        return "http", parts[0], "".join(parts[1:])
    if len(parts) == 3 and parts[0] in ("", "http", "https"):
        return parts[0] or "http", parts[1], parts[2]
    raise bad_request(f'invalid service request "{text}"')


def _port(service: Document, wanted: str) -> Document:
    """The Service's port; the first one when none is named. Raises ApiError 503."""
    ports = (service.get("spec") or {}).get("ports") or []
    for port in ports:
        if wanted in ("", port.get("name"), str(port.get("port"))):
            return dict(port)
    name = service["metadata"]["name"]
    text = f'no endpoints available for service "{name}:{wanted}"'
    if wanted.isdecimal():
        text = f'no service port {wanted} found for service "{name}"'
    raise ApiError(503, "ServiceUnavailable", text)


def _listed(endpoints: Document | None, port: Document) -> Iterable[tuple[str, int]]:
    """Ready addresses that the Endpoints object has."""
    for subset in (endpoints or {}).get("subsets") or []:
        for one in subset.get("ports") or []:
            if one.get("name", "") == port.get("name", ""):
                for address in subset.get("addresses") or []:
                    yield address["ip"], one["port"]


def _selected(store: Store, service: Document, port: Document) -> Iterable[tuple[str, int]]:
    """Addresses of ready pods that the Service selects: this cluster writes no Endpoints of its own."""
    selector = (service.get("spec") or {}).get("selector")
    if not selector:
        return
    text = ",".join(f"{key}={value}" for key, value in selector.items())
    namespace = service["metadata"]["namespace"]
    for pod in store.list("pods", namespace=namespace, label_selector=text):
        status, number = pod.get("status") or {}, _container_port(pod, port)
        conditions = {one["type"]: one["status"] for one in status.get("conditions") or []}
        if status.get("podIP") and conditions.get("Ready") == "True" and number:
            yield status["podIP"], number


def _container_port(pod: Document, port: Document) -> int | None:
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    named = (
        one
        for container in pod["spec"].get("containers") or []
        for one in container.get("ports") or []
        if one.get("name") == target
    )
    return next((int(one["containerPort"]) for one in named), None)
