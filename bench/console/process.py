"""The console as a process of its own, beside a mirror that the benchmark writes.

What may go wrong: the console ends or does not answer within a minute; its log is quoted then.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorWriter
from tests.services.conftest import store_with_our_kinds
from tests.support.cluster.fixture import embedded_api_server, write_kubeconfig
from tests.support.console.stage import SOUND
from tests.support.network.status_server import answering, free_port
from tests.support.redis.server import RedisServer

CLUSTER = "dovetail-local"
HEARTBEAT_SECONDS = 1.0


@dataclass(frozen=True)
class Running:
    """A console's process and the pen of its mirror."""

    pid: int
    url: str
    writer: MirrorWriter

    def resident_mib(self) -> float:
        """What the process holds in memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2

    def cpu_seconds(self) -> float:
        """User and system time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _beat(writer: MirrorWriter) -> None:
    """As the watcher, until cancelled."""
    while True:
        await writer.heartbeat(SOUND)
        await asyncio.sleep(HEARTBEAT_SECONDS)


@asynccontextmanager
async def console(scheduler_url: str = "http://127.0.0.1:9") -> AsyncIterator[Running]:
    """A console with an empty mirror, an API server and a Redis of its own. Nobody answers at the default URL."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = await stack.enter_async_context(RedisServer(folder))
        api = stack.enter_context(embedded_api_server(store=store_with_our_kinds()))
        bus = Bus(redis.url, CLUSTER, clock=SystemClock(), random=random.Random(1))
        await bus.start()
        stack.push_async_callback(bus.close)
        writer = MirrorWriter(bus.redis, bus.prefix, epoch="bench")
        await writer.begin({kind: {} for kind in ("machines", "nodes", "pods")})
        beating = asyncio.ensure_future(_beat(writer))
        stack.callback(beating.cancel)
        variables = {
            "KUBECONFIG": str(write_kubeconfig(folder / "kubeconfig", api)),
            "REDIS_URL": redis.url,
            "SCHEDULER_URL": scheduler_url,
        }
        process, port = await stack.enter_async_context(_process(variables, folder / "log"))
        yield Running(process.pid, f"http://127.0.0.1:{port}/", writer)


@asynccontextmanager
async def _process(
    variables: dict[str, str], log: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """(``python -m services.console``, its port), from when it answers; terminated at the end."""
    port = free_port()
    own = {
        "CLUSTER_NAME": CLUSTER,
        "STATUS_HOST": "127.0.0.1",
        "STATUS_PORT": str(port),
        "CONSOLE_ACCESS": "open",
        "LOG_LEVEL": "warning",
    }
    with log.open("w") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.console", env=os.environ | own | variables, stderr=file,
            stdout=file,
        )  # fmt: skip
    try:
        await answering(port)
        yield process, port
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 30)
