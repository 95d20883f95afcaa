"""A raw HTTP server that answers as scripted: faults of an API server, a proxy or a network.

GETs and lists, watches, and writes each follow their own script, whose last step repeats. Every
request is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedApi:
    """Scripts to fill (``lists`` also answers GETs of one object), and what came."""

    url: str = ""
    lists: list[Step] = field(default_factory=list)
    watches: list[Step] = field(default_factory=list)
    others: list[Step] = field(default_factory=list)
    requests: list[Seen] = field(default_factory=list)

    def queries(self, *, watch: bool) -> list[dict[str, str]]:
        """Query strings of the lists or watches so far."""
        gets = [seen.query for seen in self.requests if seen.method == "GET"]
        return [query for query in gets if ("watch" in query) is watch]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        body = orjson.loads(data) if data else None
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = dict(request.query)
        self.requests.append(
            Seen(request.method, request.path, query, request.content_type, headers, body)
        )
        reads = self.watches if "watch" in request.query else self.lists
        script = reads if request.method == "GET" else self.others
        return await (script.pop(0) if len(script) > 1 else script[0])(request)


@asynccontextmanager
async def scripted_api() -> AsyncIterator[ScriptedApi]:
    """Serve on a free port."""
    api = ScriptedApi()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()


def answer(body: Any, code: int = 200, **headers: str) -> Step:
    """A whole answer; dicts become JSON."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def step(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=data, status=code, headers=named)

    return step


def failure(code: int, reason: str, message: str = "scripted", **details: Any) -> dict[str, Any]:
    """A Status object."""
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def refusal(code: int, reason: str, **headers: str) -> Step:
    """An error answer."""
    return answer(failure(code, reason), code, **headers)


def page(items: list[dict[str, Any]], version: int, following: str = "") -> Step:
    """One page of a list."""
    metadata = {"resourceVersion": str(version)} | ({"continue": following} if following else {})
    return answer({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


def stream(*chunks: bytes, then: str = "hang") -> Step:
    """A watch: chunks, then silence ("hang"), a clean end ("end") or a cut connection ("abort")."""

    async def step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "hang":
            await asyncio.Event().wait()
        if then == "abort" and request.transport:
            request.transport.abort()
        return response

    return step


def pod(name: str, version: int, uid: str = "", **labels: str) -> dict[str, Any]:
    """A small pod."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def event(kind: str, body: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return orjson.dumps({"type": kind, "object": body}) + b"\n"


def bookmark(version: int) -> bytes:
    """A BOOKMARK line."""
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


EXPIRED = event("ERROR", failure(410, "Expired", "too old resource version"))
