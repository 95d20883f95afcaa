"""A small console on a real socket that speaks the contract, and objects as it sends them.

The server runs in a thread with a loop of its own, so that the command under test can run as it does for people.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Document = dict[str, Any]
AT = 1_764_000_000.0
TRUSTED: Document = {"ok": True, "reason": ""}
PATIENCE_SECONDS = 60.0


def node(name: str = "a", /, **changes: Any) -> Document:
    return {
        "id": f"NodeClaim/default-{name}", "name": f"ip-{name}.internal", "machine": f"default-{name}",
        "pool": "default", "type": "m5.large", "zone": "us-west-2a", "capacityType": "spot", "price": 0.1,
        "created": AT - 300.0, "state": "ready", "marks": [], "why": "", "deadline": None, "cpu": 2_000,
        "memory": 8 * 2**30, "podLimit": 29,
    } | changes  # fmt: skip


def pod(name: str = "web", /, **changes: Any) -> Document:
    return {
        "id": f"uid-{name}", "name": f"shop/{name}", "node": "", "cpu": 500, "memory": 2**30, "state": "pending",
        "since": AT - 42.0, "daemon": False, "owner": "ReplicaSet/web-5d", "waits": "capacity",
    } | changes  # fmt: skip


def snapshot(nodes: list[Document], pods: list[Document], **changes: Any) -> Document:
    return {
        "id": "r-1", "at": AT, "cluster": "local", "version": "0.1.0", "trusted": TRUSTED, "nodes": nodes, "pods": pods,
    } | changes  # fmt: skip


def change(**changes: Any) -> Document:
    empty: Document = {"nodes": [], "pods": []}
    return {"id": "r-2", "at": AT, "trusted": TRUSTED, "put": empty, "gone": empty} | changes


def event(name: str, document: Document) -> bytes:
    """One server-sent event, as the console writes it."""
    named = f"id: {document['id']}\n" if "id" in document else ""
    return f"{named}event: {name}\ndata: {json.dumps(document)}\n\n".encode()


DECISIONS: Document = {
    "problem": "",
    "decisions": [
        {
            "id": "d@1", "at": AT - 5, "kind": "provision", "text": "bought for 3 pods",
            "reason": "3 pods have no place",
            "pods": 3, "machines": ["default-a", "default-b"], "cost": 0.2, "bound": 0.16,
            "policies": {"LowestCost": {"cost": 0.18, "machines": 2}},
            "rejected": [{"what": f"shop/big-{n}", "why": "no pool (too large)"} for n in range(5)],
        },
        {"id": "e@2", "at": AT - 60, "kind": "consolidate", "text": "one node is empty", "cost": -0.1, "bound": None},
    ],
}  # fmt: skip


CLUSTER = snapshot([node(), node("b", zone="us-west-2b")], [pod()])
WHOLE = event("snapshot", CLUSTER)


@dataclass
class Answer:
    """One answer. A stream with ``open`` stays open after its body; ``headers`` are additional ones."""

    body: bytes
    status: int = 200
    kind: str = "text/event-stream"
    open: bool = False
    headers: dict[str, str] = field(default_factory=dict)


def document(body: Any, status: int = 200) -> Answer:
    return Answer(json.dumps(body).encode(), status, "application/json")


def opened(body: bytes) -> Answer:
    """A stream that stays open."""
    return Answer(body, open=True)


def refused(status: int, problem: str = "no") -> Answer:
    return document({"error": problem}, status)


@dataclass
class SmallConsole:
    """``cluster``: the answer of /api/cluster. ``streams``: answers of /api/stream in turn, the last one for ever."""

    cluster: Answer
    streams: list[Answer]
    url: str = ""
    reports: dict[str, Answer] = field(default_factory=dict)
    """Name of a view -> the answer of /api/NAME."""
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    """Path, Last-Event-ID and Authorization of each request."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = request.headers
        self.seen.append(
            (request.path, asked.get("Last-Event-ID", ""), asked.get("Authorization", ""))
        )
        name = request.path.removeprefix("/api/")
        if name != "stream":
            return self._whole(self.cluster if name == "cluster" else self.reports[name])
        one = self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]
        return await self._stream(request, one) if one.open else self._whole(one)

    def _whole(self, answer: Answer) -> web.Response:
        return web.Response(
            body=answer.body, status=answer.status, content_type=answer.kind, headers=answer.headers
        )

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": answer.kind})
        await response.prepare(request)
        await response.write(answer.body)
        await asyncio.Event().wait()  # until the client leaves
        return response


@contextmanager
def serving(cluster: Answer, *streams: Answer) -> Iterator[SmallConsole]:
    """The console, from when it answers until the block ends."""
    console = SmallConsole(cluster, [*streams] or [refused(404)])
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(console, ready, stop)))
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS)
        yield console
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_SECONDS)
        loop.close()


async def _serve(console: SmallConsole, ready: threading.Event, stop: asyncio.Event) -> None:
    application = web.Application()
    application.router.add_get("/{path:.*}", console.answer)
    runner = web.AppRunner(
        application, access_log=None, handler_cancellation=True, shutdown_timeout=0.01
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    console.url = f"http://{host}:{port}"
    ready.set()
    await stop.wait()
    await runner.cleanup()
