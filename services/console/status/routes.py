"""The console's routes: the page, its data as JSON, and the stream of changes. Every route only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.console.console import Console
from services.console.feed.server_sent_events import events
from services.console.status.access import COOKIE, Access
from services.console.status.page_files import HEADERS, PageFile, page_files
from shared.kube.token_access import credential_of
from shared.runtime.status.pages import read_body

MOST_DETAILS_AT_ONCE = 16
MOST_CHANGES_SECONDS = 60.0
MOST_TOKEN_BYTES = 20_000
LOOPBACK_NAMES = {"127.0.0.1", "localhost", "::1"}


def add_routes(app: FastAPI, console: Console, access: Access) -> None:
    """Add all routes. The page's files need no token, since they show nothing of the cluster."""
    app.add_middleware(Guard, access=access)
    for path, file in page_files().items():
        _serve_file(app, path, file)
    _serve_session(app, access)
    _serve_picture(app, console)
    _serve_details(app, console)
    _serve_history(app, console)
    _serve_reports(app, console)


class Guard:
    """Refuses whoever may not read, and adds the headers to every answer. It passes streams on unbuffered."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = await _refusal(Request(scope), self.access)
        await (refusal or self.app)(scope, receive, send_guarded)


async def _refusal(request: Request, access: Access) -> Response | None:
    path = request.url.path
    if not path.startswith("/api/"):
        return None
    # Without this a page of another site whose name is made to resolve to 127.0.0.1 could read the cluster.
    if access.tokens is None and not _is_loopback_name(request.headers.get("host", "")):
        return _json({"error": "an open console answers only under 127.0.0.1 or localhost"}, 421)
    if path == "/api/session":
        return None
    headers, cookies = request.headers, request.cookies
    verdict = await access.judge(credential_of(headers), cookies.get(COOKIE, ""))
    return None if verdict.status == 200 else _json({"error": verdict.reason}, verdict.status)


def _is_loopback_name(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK_NAMES
    except ValueError:
        return False


def _serve_file(app: FastAPI, path: str, file: PageFile) -> None:
    @app.get(path, include_in_schema=False)
    async def page() -> Response:
        # The files change with the version of the console only, but a browser must notice that.
        return Response(
            file.body, media_type=file.media_type, headers={"Cache-Control": "no-cache"}
        )


def _serve_session(app: FastAPI, access: Access) -> None:
    token = {"type": "object", "properties": {"token": {"type": "string"}}}
    described = {"requestBody": {"content": {"application/json": {"schema": token}}}}

    @app.post(
        "/api/session",
        summary="Sign in with a Kubernetes token",
        status_code=204,
        openapi_extra=described,
    )
    async def sign_in(request: Request) -> Response:
        token = _token_of(await read_body(request, MOST_TOKEN_BYTES) or b"")
        verdict = await access.judge(f"Bearer {token}", "")
        if verdict.status != 200:
            return _json({"error": verdict.reason}, verdict.status)
        response = Response(status_code=204)
        secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        response.set_cookie(COOKIE, token, httponly=True, secure=secure, samesite="strict")
        return response


def _token_of(body: bytes) -> str:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    token = document.get("token") if isinstance(document, dict) else None
    return token if isinstance(token, str) and token.isascii() else ""


def _serve_picture(app: FastAPI, console: Console) -> None:
    @app.get("/api/cluster", summary="All nodes and pods as they are now")
    async def cluster() -> Response:
        return Response(
            console.feed.snapshot(console.clock.now())[1], media_type="application/json"
        )

    @app.get("/api/stream", summary="All nodes and pods, then every change, as server-sent events")
    async def stream(request: Request) -> Response:
        last = request.headers.get("last-event-id", "")
        return StreamingResponse(
            events(console.feed, last, console.clock),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def _serve_details(app: FastAPI, console: Console) -> None:
    places = asyncio.Semaphore(MOST_DETAILS_AT_ONCE)

    async def details(find: Callable[[], Awaitable[dict[str, Any] | None]], what: str) -> Response:
        if places.locked():
            return _json({"error": "too many details are being read at once; try again"}, 429)
        async with places:
            document = await find()
        return (
            _json({"error": f"{what} is not there (any more)"}, 404)
            if document is None
            else _json(document)
        )

    @app.get("/api/node", summary="One node: labels, events, timeline, what keeps it")
    async def node(id: str = "") -> Response:
        return await details(lambda: console.node(id), f"node {id[:300]!r}")

    @app.get("/api/pod", summary="One pod: events, and why it is pending")
    async def pod(name: str = "") -> Response:
        return await details(lambda: console.pod(name), f"pod {name[:300]!r}")

    @app.get("/api/decision", summary="One plan: what it would have cost by each policy")
    async def decision(id: str = "") -> Response:
        return await details(lambda: console.decision(id[:300]), f"decision {id[:300]!r}")


def _serve_history(app: FastAPI, console: Console) -> None:
    @app.get("/api/history", summary="Which moments can be shown")
    async def history() -> Response:
        return _json(console.past())

    @app.get(
        "/api/history/at", summary="All nodes and pods at a moment", openapi_extra=_numbers("t")
    )
    async def at(request: Request) -> Response:
        moment = _number(request, "t")
        if moment is None:
            return _json({"error": "t: give seconds since the epoch, such as t=1764000000"}, 400)
        found = await asyncio.to_thread(console.history.recording().at, moment)
        return _json(found) if found else _json({"error": "nothing is recorded yet"}, 404)

    @app.get(
        "/api/history/changes",
        summary="The changes between two moments",
        openapi_extra=_numbers("from", "to"),
    )
    async def changes(request: Request) -> Response:
        begin, end = _number(request, "from"), _number(request, "to")
        if begin is None or end is None or not 0 <= end - begin <= MOST_CHANGES_SECONDS:
            text = (
                f"from, to: give seconds since the epoch, at most {MOST_CHANGES_SECONDS:.0f} apart"
            )
            return _json({"error": text}, 400)
        recording = console.history.recording()
        return _json({"changes": await asyncio.to_thread(recording.changes, begin, end)})


def _numbers(*names: str) -> dict[str, Any]:
    """Query parameters for the OpenAPI document; a value of another kind is answered in our own words."""
    schema = {"type": "number"}
    return {
        "parameters": [
            {"name": name, "in": "query", "required": True, "schema": schema} for name in names
        ]
    }


def _number(request: Request, name: str) -> float | None:
    try:
        found = float(request.query_params.get(name, ""))
    except ValueError:
        return None
    return found if 0 <= found < 1e12 else None


def _serve_reports(app: FastAPI, console: Console) -> None:
    reports: dict[str, tuple[str, Callable[[], Any]]] = {
        "decisions": ("The latest plans and commands, with reasons", console.decided),
        "cost": ("What the nodes cost, now and over time", console.cost),
        "ledgers": ("What rules cost, and what consolidations saved", console.ledger),
        "interruptions": ("Announced interruptions", console.interrupted),
        "queues": ("Streams, consumer groups and dead letters", console.queues),
        "health": (
            "Services, Leases and watches",
            lambda: console.health.document(console.trust()),
        ),
    }
    for name, (summary, report) in reports.items():
        _serve_report(app, name, summary, report)


def _serve_report(app: FastAPI, name: str, summary: str, report: Callable[[], Any]) -> None:
    @app.get(f"/api/{name}", summary=summary)
    async def read() -> Response:
        found = report()
        return _json(await found if asyncio.iscoroutine(found) else found)


def _json(document: object, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")
