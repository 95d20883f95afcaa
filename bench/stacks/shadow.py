"""What a shadow costs the real scheduler: latency and CPU of rounds with a shadow beside it and without one.

Run ``python -m bench.stacks.shadow``. In each round 400 pods come and are served, then leave; every other round the
shadow is stopped (SIGSTOP), so that whatever else the machine does meets both kinds alike. "latency" is the time from
the last pod to CreateFleet beyond the batch window, and includes watcher, queue, launcher and emulators.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from bench.latency import ROUND_SECONDS, apply, one_round
from bench.report import Row, options, progress, save, show
from bench.stacks.cpu_shares import cpu_seconds
from bench.stacks.local_stack import Bench, running
from local.probe import request_json
from shared.errors import Unreachable

PAIRS = 12
PORT = 18099
START_SECONDS = 60.0


@asynccontextmanager
async def shadow_of(bench: Bench, folder: Path) -> AsyncIterator[int]:
    """The process of a shadow that is ready."""
    environment = {
        **os.environ,
        **bench.stack.running().environment,
        "SHADOW": "true",
        "PACKING_POLICY": "LowestCost",
        "STATUS_PORT": str(PORT),
        "RECORD_STORE": str(folder),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.scheduler", env=environment,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await asyncio.to_thread(_is_ready):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.1)
        yield process.pid
    finally:
        process.kill()
        await process.wait()


def _is_ready() -> bool:
    try:
        return bool(request_json(f"http://127.0.0.1:{PORT}/readyz"))
    except Unreachable:
        return False


async def measure(pairs: int) -> list[Row]:
    """One row with a shadow, one without."""
    with tempfile.TemporaryDirectory() as folder:
        async with running() as bench, shadow_of(bench, Path(folder)) as shadow:
            (scheduler,) = [p for p in bench.stack.running().parts if p.name == "scheduler"]
            found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
            async with aiohttp.ClientSession() as session:
                os.environ.update(bench.stack.running().environment)
                await apply(bench.kube)
                await one_round(bench.kube, session)
                for number in progress(range(2 * pairs), "rounds"):
                    beside = number % 2 == 0
                    os.kill(shadow, signal.SIGCONT if beside else signal.SIGSTOP)
                    before = cpu_seconds(scheduler.process.pid)
                    async with asyncio.timeout(ROUND_SECONDS):
                        latency = await one_round(bench.kube, session)
                    spent = cpu_seconds(scheduler.process.pid) - before
                    found[beside].append((latency, spent * 1000))

    return [_row(name, found[beside]) for name, beside in (("with", True), ("without", False))]


def _row(name: str, rounds: list[tuple[float, float]]) -> Row:
    latencies, spent = zip(*rounds, strict=True)
    return {
        "a shadow": name,
        "rounds": len(rounds),
        "latency, ms": round(statistics.median(latencies)),
        "smallest, ms": round(min(latencies)),
        "scheduler, CPU ms a round": round(statistics.median(spent)),
    }


def main() -> None:
    """Measures and prints one table."""
    chosen = options(__doc__)
    rows = asyncio.run(measure(3 if chosen.quick else PAIRS))
    show("A shadow beside the scheduler", rows)
    save(chosen.json, {"shadow": rows})


if __name__ == "__main__":
    main()
