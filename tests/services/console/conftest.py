"""The console as ``services.console.service`` wires it, on a port of its own, and the watcher's pen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
import pytest

from services.console.service import build
from services.watcher.conversion import KINDS
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror import Change, MirrorWriter, Position
from shared.runtime.environment import Environment
from shared.runtime.live_settings import LiveSettings
from shared.runtime.services import supervise
from shared.runtime.status import Listener, server_loop
from shared.runtime.status.pages import build_app
from shared.settings import ConsoleSettings, read
from tests.services.conftest import CLUSTER
from tests.support.network.status_server import free_port, running

SOUND = {kind.resource.plural: Position(version="", sound=True, seconds=0.0) for kind in KINDS}


@dataclass
class Console:
    """A running console. ``client`` speaks to it."""

    client: aiohttp.ClientSession
    writer: MirrorWriter
    port: int

    async def show(self, *gone: tuple[str, str], **kinds: Any) -> None:
        """Write records to the mirror and take ``gone`` off it. (kind, key)."""
        changes = [Change(kind, key, None) for kind, key in gone]
        changes += [
            Change(kind, getattr(record, "key", record.name), msgspec.json.encode(record))
            for kind, records in kinds.items()
            for record in records
        ]
        await self.writer.apply(changes)
        await self.writer.heartbeat(SOUND)

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Status and JSON document."""
        async with self.client.get(path, headers=headers) as response:
            return response.status, await response.json()

    async def until(self, path: str, holds: Callable[[Any], object]) -> Any:
        """The first document of which this holds."""
        async with asyncio.timeout(30):
            while True:
                _, document = await self.get(path)
                if holds(document):
                    return document
                await asyncio.sleep(0.02)


Start = Callable[..., Any]


@pytest.fixture
def start_console(kube: Kube, bus: Bus, redis_url: str, recorder: Recorder) -> Start:
    """``async with start_console(**settings) as console``; ``kube``: another API server; ``docs``: with OpenAPI."""

    @asynccontextmanager
    async def start(**changes: Any) -> AsyncIterator[Console]:
        port, server = free_port(), changes.pop("kube", kube)
        docs = changes.pop("docs", False)
        given = {
            "cluster_name": CLUSTER,
            "redis_url": redis_url,
            "console_access": "open",
            **changes,
        }
        settings = read(ConsoleSettings, **given)
        live = LiveSettings(ConsoleSettings, server, recorder, namespace="karpenter")
        clock, metrics = SystemClock(), Metrics("console")
        env = Environment(
            settings, live, clock, random.Random(), metrics, server, bus, recorder, "test",
            AsyncExitStack(),
        )  # fmt: skip
        service = await build(env)
        serve = server_loop(Listener(build_app(service, clock, docs=docs), "127.0.0.1", port))
        writer = MirrorWriter(bus.redis, bus.prefix, epoch="epoch-a")
        await writer.begin({})
        await writer.heartbeat(SOUND)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(supervise(one, stop, metrics, clock)) for one in service.loops
            ]
            async with (
                running(serve, port),
                aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
            ):
                yield Console(client, writer, port)
            for (
                loop
            ) in loops:  # a killed console: the mirror's reader would wait a second for Redis
                loop.cancel()

    return start


@pytest.fixture
async def console(start_console: Start) -> AsyncIterator[Console]:
    """Open, on an empty mirror, beside services that do not run."""
    async with start_console(**NOBODY) as made:
        yield made


NOBODY = {f"{name}_url": "http://127.0.0.1:9" for name in (
    "watcher", "scheduler", "launcher", "terminator", "interruption"
)}  # fmt: skip
"""Addresses at which nobody answers."""
