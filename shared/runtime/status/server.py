"""The listeners of the status pages, with limits per client address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from shared.concurrency.tasks import TaskGroup
from shared.errors import ConfigurationError
from shared.runtime.services import Loop
from shared.runtime.status.connections import STATUS_LIMITS, Limits, bounded

BACKLOG = 128
"""Connections that the kernel holds until they are accepted."""


@dataclass(frozen=True)
class Listener:
    """One address and its app. ``settings``: the variables that set the address, for error messages."""

    app: FastAPI
    host: str
    port: int
    limits: Limits = STATUS_LIMITS
    settings: str = "STATUS_HOST and STATUS_PORT"


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers, because the runtime handles the signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_loop(*listeners: Listener) -> Loop:
    """A loop that serves until ``stop`` is set. Raises ConfigurationError when a port is in use."""
    servers = [(_server(listener), listener) for listener in listeners]

    async def run(stop: asyncio.Event) -> None:
        async with TaskGroup() as group:
            serving = [group.create_task(_serve(server, at)) for server, at in servers]
            await stop.wait()
            for server, _ in servers:
                server.should_exit = True
            await asyncio.wait(serving)

    return Loop(name="status server", run=run)


def _server(listener: Listener) -> _Server:
    limits = listener.limits
    return _Server(
        uvicorn.Config(
            listener.app,
            host=listener.host,
            port=listener.port,
            http=bounded(limits),
            ws="none",
            # Not "warning": any client could fill the log with requests that are not HTTP.
            log_level="error",
            access_log=False,
            lifespan="off",
            backlog=BACKLOG,
            h11_max_incomplete_event_size=limits.head_bytes,
            timeout_keep_alive=round(limits.idle_seconds),
            timeout_graceful_shutdown=2,
        )
    )


async def _serve(server: _Server, listener: Listener) -> None:
    try:
        await server.serve()
    except SystemExit as error:
        raise ConfigurationError(
            f"cannot listen on {listener.host}:{listener.port}; set {listener.settings} to a free address"
        ) from error
