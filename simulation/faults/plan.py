"""The plan of a run's faults, made from the seed before the run.

Because the plan is made first, a run can be repeated with some of its faults left out: the others stay as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from simulation.faults.fault import Fault, FaultyWorld, Span
from simulation.faults.scenarios import KINDS, SCENARIOS, Scenario

START_SECONDS = 5.0
"""Before this time services start; a fault then strikes an empty cluster."""
CALM_SECONDS = 60.0
"""Every fault ends this long before the end of a run."""


def plan_faults(random: Random, minutes: float, scenario: str) -> list[Fault]:
    """All faults of a run of ``minutes``, by time. Raises KeyError for an unknown scenario."""
    return faults_of(SCENARIOS[scenario], random, minutes)


def faults_of(scenario: Scenario, random: Random, minutes: float) -> list[Fault]:
    """The same for a scenario that is not listed; none for runs that are not longer than the calm end."""
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


def end_faults(world: FaultyWorld) -> None:
    """End every effect that may last: orders of the emulator, full Redis, wrong clocks."""
    world.redis.set_out_of_memory(False)
    world.redis.set_disk_full(False)
    world.aws.control("clear", {})
    for name in sorted(world.processes):
        world.processes[name].skew(0.0)


def by_kind(faults: Counter[str]) -> str:
    """Faults injected by kind, the most frequent first."""
    rows = sorted(faults.items(), key=lambda row: (-row[1], row[0]))
    return "faults: " + (", ".join(f"{kind} {number:,}" for kind, number in rows) or "none")
