"""An HTTP proxy in front of an API server that keeps chosen watch events to itself, as a stale cache would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp import web

Hides = Callable[[dict[str, Any]], bool]


@dataclass
class HidingProxy:
    """``hides`` is asked about each watch event; ``muted``: no byte of a watch gets through any more."""

    target: str
    hides: Hides
    muted: bool = False
    url: str = ""
    hidden: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        session: aiohttp.ClientSession = request.app[SESSION]
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type")}
        async with session.request(
            request.method,
            f"{self.target}{request.raw_path}",
            data=await request.read(),
            headers=headers,
        ) as answer:
            if "watch" in request.query and answer.status == 200:
                return await self._stream(request, answer)
            body = await answer.read()
            return web.Response(body=body, status=answer.status, content_type=answer.content_type)

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async for line in answer.content:
            if self.muted:
                await asyncio.Event().wait()
            if self.hides(orjson.loads(line)):
                self.hidden += 1
            else:
                await response.write(line)
        return response


SESSION = web.AppKey("session", aiohttp.ClientSession)


@asynccontextmanager
async def hiding_proxy(target: str, hides: Hides) -> AsyncIterator[HidingProxy]:
    """Serve on a free port."""
    proxy, app = HidingProxy(target, hides), web.Application()
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        app[SESSION] = session
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield proxy
        finally:
            await runner.cleanup()
