"""A console as its process runs it, on a free loopback port, beside a mirror that the test writes.

Everything is real: Redis, the mirror's writer and reader, the API server (embedded), the status server, and HTTP to a
scheduler whose answers the test chooses.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp.web
import msgspec

from services.console.service import build
from services.watcher.conversion import KINDS
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror import Change, MirrorWriter, Position
from shared.runtime.environment import Environment, listeners_of
from shared.runtime.live_settings import LiveSettings
from shared.runtime.services import Service, supervise
from shared.runtime.status.server import server_loop
from shared.settings import ConsoleSettings, read
from tests.support.network.status_server import answering, free_port
from tests.support.waiting import wait_until

SOUND = {kind.resource.plural: Position(version="", sound=True, seconds=0.0) for kind in KINDS}
"""Watches that are open."""
HEARTBEAT_SECONDS = 1.0


@dataclass
class Peer:
    """What the scheduler answers. ``explanations``: pod, node or decision -> answer of ``/explain``; ``ledgers``: name
    -> answer.

    ``away``: it has no status.
    """

    status: dict[str, Any] = field(default_factory=lambda: {"ready": True, "reasons": []})
    explanations: dict[str, dict[str, Any]] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)
    ledgers: dict[str, dict[str, Any]] = field(default_factory=dict)
    away: bool = False
    port: int = 0

    async def _status(self, _request: aiohttp.web.Request) -> aiohttp.web.Response:
        if self.away:
            raise aiohttp.web.HTTPServiceUnavailable
        return aiohttp.web.json_response(self.status)

    async def _explain(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
        asked = await request.json()
        if "cost" in asked:
            return aiohttp.web.json_response(self.cost)
        name = str(asked.get("pod") or asked.get("node") or asked.get("decision"))
        found = self.explanations.get(name)
        if found is None:
            return aiohttp.web.json_response({"error": f"{name} is not known"}, status=404)
        return aiohttp.web.json_response(found)

    async def _ledger(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
        found = self.ledgers.get(request.match_info["name"])
        if found is None:
            return aiohttp.web.json_response({"error": "nothing is recorded"}, status=404)
        return aiohttp.web.json_response(found)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Peer]:
        """Answers on ``port`` during the block."""
        app = aiohttp.web.Application()
        app.router.add_get("/status", self._status)
        app.router.add_post("/explain", self._explain)
        app.router.add_get("/explain/ledgers/{name}", self._ledger)
        runner = aiohttp.web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        self.port = free_port()
        await aiohttp.web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield self
        finally:
            await runner.cleanup()


@dataclass
class Stage:
    """A console and what it reads. ``start`` and ``stop`` the console as often as a story needs."""

    kube: Kube
    bus: Bus
    redis_url: str
    peer: Peer
    writer: MirrorWriter
    port: int = field(default_factory=free_port)
    service: Service | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def start(self) -> None:
        """A console that remembers nothing, from when it listens."""
        self.service = await build(self._environment())
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run(self.service))
        await answering(self.port)

    def _environment(self) -> Environment[ConsoleSettings]:
        clock, chance, scheduler = SystemClock(), random.SystemRandom(), self.peer.port
        urls: dict[str, Any] = {f"{name}_url": f"http://127.0.0.1:{scheduler}" for name in NAMES}
        settings = read(
            ConsoleSettings,
            cluster_name="dovetail-local",
            redis_url=self.redis_url,
            status_host="127.0.0.1",
            status_port=self.port,
            console_access="open",
            **urls,
        )
        recorder = Recorder(self.kube, clock, chance)
        live = LiveSettings(ConsoleSettings, self.kube, recorder, namespace="karpenter")
        return Environment(
            settings, live, clock, chance, Metrics("console"), self.kube, self.bus, recorder, "test",
            AsyncExitStack(),
        )  # fmt: skip

    async def _run(self, service: Service) -> None:
        clock, settings = SystemClock(), self._environment().settings
        server = server_loop(*listeners_of([service], settings, clock))
        async with asyncio.TaskGroup() as group:
            for loop in service.loops:
                group.create_task(supervise(loop, self._stop, service.metrics, clock))
            group.create_task(server.run(self._stop))
            group.create_task(self._beat(self._stop))

    async def _beat(self, stop: asyncio.Event) -> None:
        """The watcher's heartbeats, so that the console can rely on the mirror."""
        while not stop.is_set():
            await self.writer.heartbeat(SOUND)
            try:
                await asyncio.wait_for(stop.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """As after SIGTERM: open streams are cut after two seconds."""
        self._stop.set()
        if self._task is not None:
            await self._task
        self._task = None

    async def show(self, gone: Collection[tuple[str, str]] = (), **kinds: Any) -> None:
        """Write records of these kinds to the mirror and take ``gone`` ((kind, key)) off it."""
        await self.write(changes_of(gone, kinds))

    async def write(self, changes: list[Change]) -> None:
        """Write changes of the mirror."""
        await self.writer.apply(changes)

    async def tells(self, name: str, text: str) -> None:
        """Wait until ``/api/<name>`` of the console has this text: it asks the other services every two seconds."""

        async def told() -> bool:
            async with (
                aiohttp.ClientSession(self.url) as client,
                client.get(f"/api/{name}") as response,
            ):
                return text in await response.text()

        await wait_until(told, f"{text!r} in {name}", every=0.05)


NAMES = ("watcher", "scheduler", "launcher", "terminator", "interruption")


def changes_of(gone: Collection[tuple[str, str]], kinds: Mapping[str, Any]) -> list[Change]:
    """Changes of the mirror; a record's key is its ``key``, or its name."""
    return [Change(kind, key, None) for kind, key in gone] + [
        Change(kind, getattr(record, "key", record.name), msgspec.json.encode(record))
        for kind, records in kinds.items()
        for record in records
    ]


@asynccontextmanager
async def stage_at(kube: Kube, redis_url: str, cluster: str) -> AsyncIterator[Stage]:
    """A console that runs, with an empty mirror, during the block."""
    bus = Bus(redis_url, cluster, clock=SystemClock(), random=random.Random(1))
    await bus.start()
    try:
        async with Peer().running() as peer:
            writer = MirrorWriter(bus.redis, bus.prefix, epoch="epoch-a")
            await writer.begin({kind: {} for kind in ("machines", "nodes", "pods")})
            made = Stage(kube, bus, redis_url, peer, writer)
            await made.start()
            try:
                yield made
            finally:
                await made.stop()
    finally:
        await bus.close()
