"""The plan of a run's faults, made from the seed before the run, and its execution.

Because the plan is made first, a run can be repeated with some of its faults left out: the others stay as they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from random import Random

from simulation.faults.fault import Fault, FaultyWorld, Span
from simulation.faults.scenarios import KINDS, Scenario

START_SECONDS = 5.0
"""Before this time services start; a fault then strikes an empty cluster."""
CALM_SECONDS = 60.0
"""Every fault ends this long before the end of a run."""


def plan_faults(random: Random, minutes: float, scenario: Scenario) -> list[Fault]:
    """All faults of a run of ``minutes``, by time; none for runs that are not longer than the calm end."""
    end = minutes * 60 - CALM_SECONDS
    processes = scenario.processes()
    plan: list[Fault] = []
    for name, kind in KINDS.items():
        # Every kind has its own generator: a changed rate of one kind leaves the faults of the others as they are.
        own = Random(f"{random.getrandbits(64)}/{name}")
        rate = scenario.per_minute.get(name, 0.0)
        if own.random() >= scenario.share or rate <= 0:
            continue
        plan += [
            kind.draw(own, Span(begin, end), processes) for begin in _times(own, rate / 60, end)
        ]
    return sorted(plan, key=lambda one: one.at_seconds)


def _times(random: Random, per_second: float, end: float) -> Iterator[float]:
    at = START_SECONDS
    while True:
        at += random.expovariate(per_second)
        if at >= end:
            return
        yield round(at, 3)


async def inject(plan: Sequence[Fault], world: FaultyWorld) -> None:
    """Apply every fault at its time, counted from now; returns when all effects have ended."""
    begin = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        for fault in plan:
            await _sleep_until(begin + fault.at_seconds)
            world.trace.add("fault", name=fault.kind, text=fault.text)
            group.create_task(fault.apply(world), name=f"fault {fault.kind}")
    await end_faults(world)


async def end_faults(world: FaultyWorld) -> None:
    """End every effect that may last: orders of the emulator, full Redis, wrong clocks."""
    world.redis.set_out_of_memory(False)
    world.redis.set_disk_full(False)
    world.aws.control("clear", {})
    for name in sorted(world.processes):
        world.processes[name].skew(0.0)


async def _sleep_until(at: float) -> None:
    now = asyncio.get_running_loop().time()
    if at > now:
        await asyncio.sleep(at - now)
