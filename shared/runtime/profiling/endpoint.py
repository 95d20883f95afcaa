"""``GET /debug/profile?seconds=N&format=collapsed|speedscope``, where PROFILING is on."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal

import orjson
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse

from shared.runtime.profiling.sampler import sample
from shared.runtime.profiling.samples import Samples

PATH = "/debug/profile"
LONGEST_SECONDS = 60.0
GONE_SECONDS = 0.25
"""How often it is checked whether the client is still there."""
Format = Literal["collapsed", "speedscope"]


def serve_profile(app: FastAPI, service: str) -> None:
    """Add the endpoint. One profile is taken at a time, in a thread that ends with its client."""
    busy = asyncio.Lock()

    @app.get(PATH, summary="Where the process spends its time: stacks of all threads, sampled")
    async def profile(
        request: Request,
        seconds: float = Query(5.0, ge=0.1, le=LONGEST_SECONDS),
        form: Format = Query("collapsed", alias="format"),
    ) -> Response:
        if busy.locked():
            return JSONResponse({"error": "a profile is being taken; try again after it"}, 429)
        async with busy:
            found = await _taken(request, seconds)
        return await asyncio.to_thread(_answer, found, service, form)


async def _taken(request: Request, seconds: float) -> Samples:
    """In a thread of its own: the pool's threads belong to the service."""
    stop, found = threading.Event(), list[Samples]()
    thread = threading.Thread(
        target=lambda: found.append(sample(seconds, stop)), name="profile", daemon=True
    )
    thread.start()
    try:
        while thread.is_alive() and not await request.is_disconnected():
            await asyncio.sleep(min(GONE_SECONDS, seconds))
    finally:
        stop.set()
    await asyncio.to_thread(thread.join)
    return found[0]


def _answer(found: Samples, service: str, form: Format) -> Response:
    if form == "speedscope":
        return Response(orjson.dumps(found.speedscope(service)), media_type="application/json")
    return Response(found.collapsed(), media_type="text/plain; charset=utf-8")
