"""The embedded cluster's API over HTTP, for kubectl, kubernetes_asyncio and other Kubernetes clients.

One route takes every path; ``verbs.py`` does the work. The protocol is plain HTTP, and a client without a token is the
cluster's administrator, so bind only to the loopback address. Idle connections must outlive a client's retry pause,
because otherwise kubectl drain fails with EOF on a repeated eviction; see ``KEEP_ALIVE_SECONDS``.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from local.cluster.api import calls, discovery, openapi, verbs
from local.cluster.api.authorization.attributes import path_attributes, resource_attributes
from local.cluster.api.authorization.authentication import Access, access_to
from local.cluster.api.authorization.users import User
from local.cluster.api.calls import Call, answer
from local.cluster.api.errors import ApiError, method_not_allowed, no_such_path
from local.cluster.api.requests import Body, Query, Target, parse_path
from local.cluster.api.streaming.proxy import parse_proxied, pass_on
from local.cluster.storage.store import Store
from shared.log import get_logger

log = get_logger(__name__)

KEEP_ALIVE_SECONDS = 120
STOP_SECONDS = 1
"""Time of open watches to end."""
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
HEALTH = ("/healthz", "/livez", "/readyz")
VERSION = {
    "major": "1",
    "minor": "32",
    # Identifies this server: unlike the real 1.32, its scheduler follows nominations by other programs.
    "gitVersion": f"{openapi.VERSION}+dovetail",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2025-04-22T16:02:58Z",
    "goVersion": "go1.23.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}

Handler = Callable[[Call, Body], Response]
HANDLERS: dict[str, Handler] = {
    "GET": lambda call, _body: verbs.read(call),
    "POST": verbs.create,
    "PUT": verbs.replace,
    "PATCH": verbs.patch,
    "DELETE": verbs.delete,
}


def build_app(store: Store, access: Access | None = None) -> Starlette:
    """The ASGI application on top of ``store``. It must run on the store's own event loop.

    ``access`` holds the tokens; by default only tokens that the server itself issues are valid.
    """
    known = access or access_to(store)

    async def serve_request(request: Request) -> Response:
        try:
            return await respond(store, known, request)
        except ClientDisconnect:
            return Response(status_code=499)

    route = Route("/{path:path}", serve_request, methods=METHODS)
    return Starlette(routes=[route], exception_handlers={Exception: _internal_error})


async def respond(store: Store, access: Access, request: Request) -> Response:
    """The answer to one request; it waits for nothing but the request's body and the address that is asked by proxy."""
    try:
        return await _dispatch(store, access, request)
    except ApiError as error:
        return answer(orjson.dumps(error.status()), error.code)


async def _internal_error(request: Request, error: Exception) -> Response:
    log.error("request failed", method=request.method, path=request.url.path, error=repr(error))
    failure = ApiError(500, "InternalError", f"Internal error occurred: {error!r}")
    return answer(orjson.dumps(failure.status()), failure.code)


async def _dispatch(store: Store, access: Access, request: Request) -> Response:
    path = request.scope["path"].rstrip("/") or "/"  # request.url would be put together and parsed
    method = "GET" if request.method == "HEAD" else request.method
    user = access.user(request.headers)
    if proxied := parse_proxied(request.scope["raw_path"].decode("latin-1")):
        access.check(user, proxied.attributes(method))
        return await pass_on(store, proxied, request)
    target = parse_path(path)
    _authorize(access, user, target, request)
    if method == "GET":
        found = _document(store, path, request.headers.get("accept", ""))
        if found is not None:
            return found
    if target is None:
        raise no_such_path()
    if not target.plural:
        if method != "GET":
            raise method_not_allowed()
        groups = discovery.groups_of(store)
        return _json(discovery.resource_list(groups, target.group, target.version))
    body = Body.of(request.headers.get("content-type", ""), await request.body())
    headers, query = request.headers, Query(request.query_params)
    accept, agent = headers.get("accept", ""), headers.get("user-agent", "")
    return HANDLERS[method](Call(store, access, user, target, query, accept, agent), body)


def _authorize(access: Access, user: User, target: Target | None, request: Request) -> None:
    method = "GET" if request.method == "HEAD" else request.method
    if target is not None and target.plural:
        asked = resource_attributes(method, target, Query(request.query_params))
    else:
        asked = path_attributes(method, request.scope["path"])
    access.check(user, asked)


def _json(document: object, media_type: str = calls.MEDIA) -> Response:
    return Response(orjson.dumps(document), media_type=media_type)


def _document(store: Store, path: str, accept: str) -> Response | None:
    """Version, health, discovery and schemas; None for every other path."""
    if path == "/version":
        return _json(VERSION)
    if path.startswith(HEALTH):
        return PlainTextResponse("ok")
    if path in ("/api", "/apis"):
        return _groups(store, accept, core=path == "/api")
    if path == "/openapi/v2":
        return Response(openapi.V2_EMPTY, media_type=openapi.V2_MEDIA)
    if path == "/openapi/v3":
        return _json(openapi.index(store))
    if path.startswith("/openapi/v3/"):
        return _json(openapi.document(store, path.removeprefix("/openapi/v3/")))
    if path.startswith("/apis/") and path.count("/") == 2:
        return _json(discovery.api_group(discovery.groups_of(store), path.rpartition("/")[2]))
    return None


def _groups(store: Store, accept: str, *, core: bool) -> Response:
    groups = discovery.groups_of(store)
    if "v=v2;" in accept and "apidiscovery.k8s.io" in accept:
        return _json(discovery.aggregated(groups, core=core), discovery.AGGREGATED)
    return _json(discovery.api_versions() if core else discovery.api_groups(groups))


class ApiServer(uvicorn.Server):
    """uvicorn without its own signal handling: the program around it sets ``should_exit``."""

    def __init__(self, store: Store, access: Access | None = None) -> None:
        config = uvicorn.Config(
            build_app(store, access),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=STOP_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, then set the event that reports it."""
        await super().startup(sockets)
        self.is_up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
