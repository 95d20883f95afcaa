"""What a cluster costs in which nothing happens: CPU and requests of each service per minute.

Launches so many machines on a local stack, waits until what follows a start is done, then looks on. What grows with the
machines though nothing changes is the price of looking again. Run `python -m bench.over_time.at_rest`; `--sizes 100
--settle 60` runs less. Linux only: CPU seconds are read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
import urllib.request
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.launching import STEPS, Play, apart, played, prepared
from bench.report import Row, save, show
from bench.stacks.cpu_shares import CpuShares
from bench.stacks.local_stack import Bench, running
from shared.domain.pools.generations import GENERATIONS, V1

SIZES = (100, 300)
SETTLE_SECONDS = 840.0
"""The launcher looks for garbage every 20 s for seven minutes, compares nodes with what was promised after ten, and
names thirty instances a minute."""
WATCHED_SECONDS = 180.0
REQUESTS = {
    "API server": re.compile(r"^client_go_request_duration_seconds_count\{.*\} (\S+)$", re.M),
    "AWS": re.compile(r"^aws_sdk_go_request_duration_seconds_count\{.*\} (\S+)$", re.M),
}
"""Counters of a service's metrics page."""
MINUTE = 60.0


def counted(page: str) -> Counter[str]:
    """Requests so far by receiver, from a metrics page."""
    return Counter(
        {name: round(sum(map(float, each.findall(page)))) for name, each in REQUESTS.items()}
    )


def per_minute(before: Counter[str] | None, after: Counter[str] | None, seconds: float) -> Row:
    """Requests a minute by receiver; None where they are not counted."""
    return {
        f"{name} requests/min": None
        if before is None or after is None
        else round((after[name] - before[name]) * MINUTE / seconds, 1)
        for name in REQUESTS
    }


async def pages(bench: Bench) -> dict[str, Counter[str]]:
    """Service -> requests so far."""
    environment = bench.stack.running().environment
    found = {}
    for part in bench.stack.running().parts:
        url = environment.get(f"DOVETAIL_{part.name.upper()}_URL")
        if url:
            found[part.name] = counted(await asyncio.to_thread(_page, url))
    return found


def _page(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        return str(answer.read(), "utf-8")


async def watched(bench: Bench, machines: int, seconds: float) -> list[Row]:
    """A row for each process of the stack; requests are known of services."""
    parts = bench.stack.running().parts
    shares = CpuShares({part.name: part.process.pid for part in parts})
    began, before = time.monotonic(), await pages(bench)
    await waited(f"{machines} machines at rest", seconds)
    for part in parts:
        shares.record(part.name, part.process.pid)
    took, after = time.monotonic() - began, await pages(bench)
    cpu = shares.seconds()
    return [
        {
            "machines": machines,
            "process": part.name,
            "CPU %": round(100 * cpu[part.name] / took, 2),
            **per_minute(before.get(part.name), after.get(part.name), took),
        }
        for part in parts
    ]


async def waited(what: str, seconds: float) -> None:
    """Wait, and show it on stderr."""
    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=seconds)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            bars.update(task, completed=passed)
            await asyncio.sleep(min(1.0, seconds - passed))


async def at_rest(machines: int, settle: float, seconds: float) -> list[Row]:
    """Launches so many machines, and watches once they have settled."""
    api = GENERATIONS[V1]
    async with running(log_level="warning") as bench:
        await prepared(bench, api)
        await played(
            bench, Play([apart(machines)], api, dict.fromkeys(STEPS, machines)), time.time()
        )
        await waited("settling", settle)
        return await watched(bench, machines, seconds)


def main() -> None:
    """Measures each size, and prints a row for each process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="MACHINES")
    parser.add_argument("--settle", type=float, default=SETTLE_SECONDS, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=WATCHED_SECONDS, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    rows = [
        row
        for size in chosen.sizes
        for row in asyncio.run(at_rest(size, chosen.settle, chosen.seconds))
    ]
    show("at rest", rows)
    save(chosen.json, {"at rest": rows})


if __name__ == "__main__":
    main()
