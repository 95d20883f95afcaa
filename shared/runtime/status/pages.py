"""The endpoints of a service: ``/healthz`` ``/readyz`` ``/metrics`` ``/status``, and its own questions. Read only.

``/healthz`` only shows that the event loop runs and checks no dependency: a short outage of Redis must not restart five
services. ``/readyz`` is 200, or 503 with the reasons.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeGuard

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Mount, Route, compile_path

from shared.concurrency.clock import Clock
from shared.distribution.version import VERSION
from shared.kube.token_access import credential_of
from shared.runtime.services import CALLER, Answer, Question, Service
from shared.runtime.status.profile import Admit, serve_profile

MOST_AT_ONCE = 4
"""Maximum number of requests of one question that are handled at the same time."""


class _AnyText(Convertor[str]):
    """The rest of a path. ``path`` does not match a line break, and what nobody serves is answered without a token."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("text", _AnyText())


def build_app(
    service: Service,
    clock: Clock,
    *,
    docs: bool = False,
    profiling: bool = False,
    admit_profile: Admit | None = None,
) -> FastAPI:
    """The status app of one service. ``admit_profile``: of another service in the same process."""
    app = FastAPI(
        title=f"Dovetail {service.name}",
        version=VERSION,
        docs_url="/docs" if docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if docs else None,
    )

    _explain_refusals(app)

    _serve_health(app, lambda: service.unready(clock.monotonic()), service.notes)

    one_at_a_time = asyncio.Lock()

    @app.get("/metrics", summary="Prometheus metrics")
    async def metrics() -> Response:
        # Here and not in the thread: the loops write what readiness is read from.
        service.metrics.report_readiness(not service.unready(clock.monotonic()))
        # In a thread, because a large cluster has tens of thousands of lines. One thread for all requests, because
        # the service needs the others.
        async with one_at_a_time:
            text = await asyncio.to_thread(service.metrics.text)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    @app.get("/status", summary="What the service holds and does")
    async def status() -> dict[str, object]:
        reasons = service.unready(clock.monotonic())
        return {
            "service": service.name,
            "ready": not reasons,
            "reasons": reasons,
            "notes": service.notes(),
            **service.status(),
        }

    if profiling:
        serve_profile(app, service.name, service.admit_profile or admit_profile)
    for question in service.questions:
        _serve_question(app, question)
    if service.add_routes is not None:
        service.add_routes(app)
    return app


def _serve_health(
    app: FastAPI, unready: Callable[[], list[str]], notes: Callable[[], list[str]]
) -> None:
    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", summary="The event loop turns")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", summary="The service can do its work; 503 says why not")
    async def readyz() -> JSONResponse:
        reasons = unready()
        found = {"ready": not reasons, "reasons": reasons, "notes": notes()}
        return JSONResponse(found, status_code=503 if reasons else 200)


def _explain_refusals(app: FastAPI) -> None:
    """Answers a wrong path or method with the existing ones, as JSON with ``error`` like every other refusal."""

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        method, path, headers = request.method, request.url.path, error.headers or {}
        if error.status_code == 404:
            offered = [route.path for route in app.routes if _is_offered(route)]
            text = f"no {path[:100]} here; there are {', '.join(dict.fromkeys(offered))}"
        elif error.status_code == 405:
            text = f"{method} {path[:100]} is not offered; use {headers.get('Allow', 'GET')}"
        else:
            text = str(error.detail)
        return JSONResponse({"error": text}, status_code=error.status_code, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def name_parameters(request: Request, error: RequestValidationError) -> Response:
        faults = (f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        return JSONResponse({"error": "; ".join(faults)[:500]}, status_code=422)


def _is_offered(route: BaseRoute) -> TypeGuard[Route | Mount]:
    """Files of a page, which the OpenAPI document leaves out too, would hide the others in a list."""
    return isinstance(route, Mount) or (isinstance(route, Route) and route.include_in_schema)


def _serve_question(app: FastAPI, question: Question) -> None:
    places = asyncio.Semaphore(MOST_AT_ONCE)

    described = _described(question)

    @app.api_route(
        question.path,
        methods=[question.method],
        summary=question.summary,
        openapi_extra=described,
    )
    async def ask(request: Request) -> Response:
        if question.admit is not None:
            refusal = await question.admit(credential_of(request.headers))
            if refusal is not None:
                return _reply(refusal)
        if places.locked():
            return JSONResponse({"error": "too many ask this at once; try again"}, 429)
        async with places:
            return await _answered(request, question)


def _described(question: Question) -> dict[str, object]:
    """The body of a POST, or the parameters in the path of a GET, for the OpenAPI document."""
    if question.method == "POST":
        body = {"application/json": {"schema": dict(question.body)}}
        return {"requestBody": {"content": body}}
    _, _, names = compile_path(question.path)
    text = {"type": "string"}
    return {
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": text} for name in names
        ]
    }


async def _answered(request: Request, question: Question) -> Response:
    try:
        body = await read_body(request, question.most_bytes)
    except ClientDisconnect:
        return Response(status_code=400)  # the client is disconnected
    if body is None:
        text = f"the body is larger than {question.most_bytes} bytes"
        return JSONResponse({"error": text}, status_code=413)
    answer = await _unless_gone(
        request, question.answer(body, await _parameters(request, question))
    )
    return Response(status_code=400) if answer is None else _reply(answer)


async def _parameters(request: Request, question: Question) -> dict[str, str]:
    """Of query and path; the caller is never what a client says."""
    found = {**request.query_params, **request.path_params}
    found.pop(CALLER, None)
    if question.caller is not None:
        found[CALLER] = await question.caller(credential_of(request.headers))
    return found


def _reply(answer: Answer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers), answer.media_type)


async def _unless_gone(request: Request, answer: Awaitable[Answer]) -> Answer | None:
    """The answer; None when the client disconnected, which cancels the computation."""
    working = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.wait([working, gone])


async def read_body(request: Request, most_bytes: int) -> bytes | None:
    """The request's body; None when it is too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            return None
        parts.append(part)
    return b"".join(parts)


def mount(
    services: Sequence[Service], clock: Clock, *, docs: bool = False, profiling: bool = False
) -> FastAPI:
    """One app: a single service at the root, several services each below its name."""
    if len(services) == 1:
        return build_app(services[0], clock, docs=docs, profiling=profiling)
    root = FastAPI(
        title="Dovetail", version=VERSION, docs_url=None, redoc_url=None, openapi_url=None
    )

    _explain_refusals(root)

    @root.head("/healthz", include_in_schema=False)
    @root.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    # A profile shows the whole process: who is not admitted by one service must not ask another.
    admit = next(filter(None, (service.admit_profile for service in services)), None)
    for service in services:
        app = build_app(service, clock, docs=docs, profiling=profiling, admit_profile=admit)
        root.mount(f"/{service.name}", app)
    return root


def probes(services: Sequence[Service], clock: Clock) -> FastAPI:
    """The kubelet's probes, for a separate listener; a process with several services is ready when all are ready."""
    app = FastAPI(title="Dovetail probes", docs_url=None, redoc_url=None, openapi_url=None)
    _explain_refusals(app)
    _serve_health(
        app,
        lambda: [why for one in services for why in one.unready(clock.monotonic())],
        lambda: [note for one in services for note in one.notes()],
    )
    return app
