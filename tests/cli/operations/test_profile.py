"""``dovetail profile`` against a real status server."""

from __future__ import annotations

import asyncio

from tests.cli.conftest import Dovetail

from shared.concurrency.clock import SystemClock
from shared.metrics import Metrics
from shared.runtime.services import Service
from shared.runtime.status import Listener, mount, server_loop
from tests.support.network.status_server import free_port, running

VARIABLE = "DOVETAIL_SCHEDULER_URL"


async def profiled(dovetail: Dovetail, *options: str, profiling: bool = True) -> tuple[int, str]:
    """Exit code and output, for a scheduler that runs here."""
    port, service = free_port(), Service("scheduler", [], Metrics("scheduler"), dict, list)
    listener = Listener(mount([service], SystemClock(), profiling=profiling), "127.0.0.1", port)
    variables = {VARIABLE: f"http://127.0.0.1:{port}"}
    async with running(server_loop(listener), port):
        found = await asyncio.to_thread(
            dovetail, "profile", "scheduler", "--seconds", "0.2", *options, env=variables
        )
    return found.exit_code, found.output
