"""How long the event loop is blocked while the catalogue of instance types is read, written and decoded.

A task sleeps for 5 ms repeatedly; the gap is the longest time between two wake-ups. The table also shows this process'
processor time in the gap, which excludes other programs on a busy machine. The catalogue is the emulator's, about 900
types, written by the launcher's code and read by the scheduler's. Run `python -m bench.loop_gaps`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.report import Row, save, show
from bench.stacks.local_stack import Bench, running
from services.launcher.catalogue.learned_memory import MemorySizes
from services.launcher.catalogue.publish import Catalogues
from services.launcher.catalogue.read import CatalogueRequest
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.concurrency.clock import SystemClock
from shared.concurrency.tasks import TaskGroup
from shared.domain.instance_types.reservations import Reservation
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodeClass, SelectorTerm
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.learned_ram import LearnedMemory
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.redis.mirror.catalogue.reservations import ReservationStore, ReservedCatalogues
from shared.runtime.ram import settle

TICK_SECONDS = 0.005
BAR_SECONDS = 0.05
RUNS = 3
Work = Callable[[], Awaitable[object]]


@dataclass
class Ticker:
    """The longest gap between two wake-ups."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """The most processor time in one gap, not necessarily the longest one."""

    async def run(self) -> None:
        """Sleeps and measures until cancelled."""
        wall, cpu = time.monotonic(), time.process_time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now, used = time.monotonic(), time.process_time()
            self.wall_seconds = max(self.wall_seconds, now - wall)
            self.cpu_seconds = max(self.cpu_seconds, used - cpu)
            wall, cpu = now, used


async def watched(what: str, work: Work) -> Row:
    """Runs the work beside a ticker, and returns its row."""
    ticker = Ticker()
    async with TaskGroup() as group:
        ticking = group.create_task(ticker.run())
        await asyncio.sleep(4 * TICK_SECONDS)
        started = time.monotonic()
        await work()
        seconds = time.monotonic() - started
        await asyncio.sleep(4 * TICK_SECONDS)
        ticking.cancel()
    return {
        "what": what,
        "took s": round(seconds, 3),
        "largest gap ms": round(ticker.wall_seconds * 1000, 1),
        "of it ours ms": round(ticker.cpu_seconds * 1000, 1),
    }


@dataclass
class World:
    """Redis and catalogue reader of one stack, as the launcher and the scheduler use them."""

    bus: Bus
    reading: CatalogueRequest

    def launcher(self) -> Catalogues:
        """The catalogues of a launcher that has just started."""
        store = CatalogueStore(self.bus.redis, self.bus.prefix)
        clock = SystemClock()
        memory = MemorySizes(LearnedMemory(self.bus.redis, self.bus.prefix), clock)
        return Catalogues(store, self.reading, clock, memory)

    async def cases(self) -> list[Row]:
        """Every way in which the catalogue is read or written, one after the other."""
        settle()
        launcher = self.launcher()
        rows = [
            await watched("nothing, for comparison", lambda: asyncio.sleep(1.0)),
            await watched("launcher reads AWS", launcher.update),
            await watched("launcher finds nothing to do", launcher.update),
        ]
        await self.bus.redis.flushall()
        rows.append(await watched("launcher writes what Redis lost", launcher.update))
        rows.append(await watched("launcher starts and takes it over", self.launcher().update))
        plain = CatalogueStore(self.bus.redis, self.bus.prefix)
        rows.append(await watched("scheduler reads it", plain.get))
        rows.append(await watched("scheduler reads it again", plain.get))
        known = ReservationStore(self.bus.redis, self.bus.prefix)
        terms = (SelectorTerm(match_criteria="open"),)
        node_class = NodeClass(
            uid="u", name="default", generation_api=V1, reservation_terms=terms, ready=True
        )
        await known.put(node_class, reservations())
        store = CatalogueStore(self.bus.redis, self.bus.prefix)
        reserved = ReservedCatalogues(store, known, lambda: [node_class])
        rows.append(await watched("scheduler reads it with reservations", reserved.get))
        rows.append(await watched("the same again", reserved.get))
        return rows


def reservations() -> list[Reservation]:
    """Reservations of types in the catalogue."""
    return [
        Reservation(
            id=f"cr-{number}",
            instance_type=f"m5.{size}",
            zone="us-west-2a",
            left=number,
            node_classes=("EC2NodeClass/default",),
        )
        for number, size in enumerate(("large", "xlarge", "2xlarge", "4xlarge"), start=1)
    ]


@asynccontextmanager
async def connected(bench: Bench) -> AsyncIterator[World]:
    """Connects to the stack's Redis, and sets the environment for its AWS emulator."""
    environment = bench.stack.running().environment
    os.environ.update({name: text for name, text in environment.items() if name.startswith("AWS_")})
    bus = Bus(environment["REDIS_URL"], "bench", clock=SystemClock(), random=random.Random(0))
    reading = CatalogueRequest(
        environment["AWS_REGION"], environment["AWS_ENDPOINT_URL"], ModelSettings(), "error"
    )
    try:
        yield World(bus, reading)
    finally:
        await bus.close()


async def measure(runs: int) -> list[Row]:
    """Per case, the row of the run with the median gap."""
    async with running(services=(), log_level="warning") as bench, connected(bench) as world:
        tried = [await world.cases() for _ in range(runs)]
    return [sorted(rows, key=_ours)[len(rows) // 2] for rows in zip(*tried, strict=True)]


def _ours(row: Row) -> float:
    return float(str(row["of it ours ms"]))


def main() -> None:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    rows = asyncio.run(measure(chosen.runs))
    show("the loop's largest gaps", rows)
    save(chosen.json, {"loop_gaps": rows})
    print(f"target: {BAR_SECONDS * 1000:.0f} ms")


if __name__ == "__main__":
    main()
