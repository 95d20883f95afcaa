"""``GET /debug/profile?seconds=N&format=collapsed|speedscope``, where PROFILING is on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Annotated, Any, Literal

import orjson
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse

from shared.concurrency.clock import SystemClock
from shared.kube.token_access import credential_of
from shared.runtime.profiling.sampler import sample
from shared.runtime.profiling.samples import Samples
from shared.runtime.services import Answer
from shared.runtime.status.admission import PROFILE_PATH

LONGEST_SECONDS = 60.0
Format = Literal["collapsed", "speedscope"]
Admit = Callable[[str], Awaitable[Answer | None]]


def serve_profile(app: FastAPI, service: str, admit: Admit | None) -> None:
    """Add the endpoint. One profile is taken at a time, in a thread that ends with its client.

    ``admit``: as in a question.
    """
    busy = asyncio.Lock()

    @app.get(
        PROFILE_PATH, summary="Where the process spends its time: stacks of all threads, sampled"
    )
    async def profile(
        request: Request,
        seconds: Annotated[float, Query(ge=0.1, le=LONGEST_SECONDS)] = 5.0,
        form: Annotated[Format, Query(alias="format")] = "collapsed",
    ) -> Response:
        refusal = admit and await admit(credential_of(request.headers))
        if refusal:
            return Response(refusal.body, refusal.status, media_type="application/json")
        if busy.locked():
            return JSONResponse({"error": "a profile is being taken; try again after it"}, 429)
        async with busy:
            found = await _taken(request, seconds)
        return await asyncio.to_thread(_answer, found, service, form)


async def _taken(request: Request, seconds: float) -> Samples:
    """In a thread of its own: the pool's threads belong to the service."""
    stop, found = threading.Event(), Future[Samples]()

    def run() -> None:
        try:
            found.set_result(sample(seconds, stop, SystemClock()))
        except BaseException as error:  # noqa: BLE001  for whoever waits
            found.set_exception(error)

    threading.Thread(target=run, name="profile", daemon=True).start()
    ended, gone = asyncio.wrap_future(found), asyncio.ensure_future(_gone(request))
    both: list[asyncio.Future[Any]] = [ended, gone]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        gone.cancel()
    return await ended


async def _gone(request: Request) -> None:
    """Returns when the client is disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(found: Samples, service: str, form: Format) -> Response:
    if form == "speedscope":
        return Response(orjson.dumps(found.speedscope(service)), media_type="application/json")
    return Response(found.collapsed(), media_type="text/plain; charset=utf-8")
