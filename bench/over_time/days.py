"""Seeded days of a cluster: pods that arrive in batches and leave again, for ``bench.over_time.day``.

A day is a list of wishes: a pod arrives, or one pod of a workload leaves. Pods of a job leave one by one when their
lifetimes are over; a deployment follows a curve over the day, and the controller takes its newest pod first.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from bench.inputs import workloads
from cli.decisions.replaying.demand import Arrival, Removal, Wish
from shared.domain.workloads.pods import Owner, Pod

START = 2_000_000_000.0
HOUR, MINUTE = 3600.0, 60.0
SCALING_SECONDS = 10 * MINUTE
"""How often deployments change their size."""
LEAST_LIFE, MOST_LIFE = 2 * MINUTE, 6 * HOUR
SMALLEST_BATCH, LARGEST_BATCH = 20, 200
_LOW, _NOISE = 0.35, 0.08
"""Least size of a deployment, as a share of its largest, and how much each step is off the curve."""


class Day(NamedTuple):
    """One day, beginning at ``START`` with an empty cluster."""

    name: str
    hours: float
    wishes: tuple[Wish, ...]

    @property
    def arrivals(self) -> int:
        """How many pods arrive."""
        return sum(isinstance(wish, Arrival) for wish in self.wishes)


def days(share: float = 1.0, seed: str = "") -> list[Day]:
    """All of them. ``share``: of the usual number of pods, and of the hours of days that repeat themselves. ``seed``:
    another one gives other days of the same kinds."""
    long, short = max(4.0, 24 * share), max(3.0, 12 * share)
    size = round(1200 * share)
    made: dict[str, tuple[float, Callable[[random.Random], Iterable[Wish]]]] = {
        "services": (long, lambda d: services(d, size, long, rules=False)),
        "services with rules": (long, lambda d: services(d, size, long, rules=True)),
        "jobs": (short, lambda d: jobs(d, short, 8 * MINUTE, 30 * MINUTE)),
        "jobs with long tails": (short, lambda d: jobs(d, short, 15 * MINUTE, tail=1.3)),
        "builds": (short, lambda d: jobs(d, short, 4 * MINUTE, 10 * MINUTE, most=60)),
        "growth": (short, lambda d: growth(d, round(2000 * share), short)),
        "services and jobs": (
            long,
            lambda d: [
                *services(d, size // 2, long, rules=True),
                *jobs(d, long, 20 * MINUTE, 40 * MINUTE, most=100),
            ],
        ),
        "nightly batch": (
            long,
            lambda d: [
                *services(d, size // 2, long, rules=False),
                *jobs(d, long / 4, 5 * MINUTE, 60 * MINUTE),
            ],
        ),
    }  # fmt: skip
    return [_day(name, hours, wishes, seed) for name, (hours, wishes) in made.items()]


def _day(
    name: str, hours: float, wishes: Callable[[random.Random], Iterable[Wish]], seed: str
) -> Day:
    found = [one for one in wishes(random.Random(name + seed)) if one.at < START + hours * HOUR]
    return Day(name, hours, tuple(sorted(found, key=lambda wish: wish.at)))


def services(draw: random.Random, size: int, hours: float, *, rules: bool) -> Iterator[Wish]:
    """Deployments of Zipf sizes that grow and shrink over the day, each with its own phase within two hours."""
    pods = workloads.zipf(size, deployments=60, seed=draw.randrange(1000))
    for app in sorted({pod.labels["app"] for pod in pods}):
        members = [pod for pod in pods if pod.labels["app"] == app]
        one = members[0] if rules else replace(members[0], **_WITHOUT_RULES)
        yield from _deployment(
            draw, replace(one, owner=_owner("ReplicaSet", app)), len(members), hours
        )


_WITHOUT_RULES: dict[str, object] = {
    "spread": (), "anti_affinity": (), "affinity": (), "node_selector": {},
}  # fmt: skip


def _deployment(draw: random.Random, like: Pod, most: int, hours: float) -> Iterator[Wish]:
    lag, number, alive = draw.uniform(-1, 1) * HOUR, 0, 0
    app = like.labels["app"]
    at = START
    while at < START + hours * HOUR:
        angle = 2 * math.pi * (at - START - lag) / (hours * HOUR)
        curve = _LOW + (1 - _LOW) * (1 - math.cos(angle)) / 2
        desired = max(1, round(most * min(1.0, curve + draw.uniform(-_NOISE, _NOISE))))
        for _ in range(alive, desired):
            number += 1
            yield Arrival(at, _named(like, f"{app}-{number}", at))
        for _ in range(desired, alive):
            yield Removal(at, _uid(like))
        alive = desired
        at += draw.choice((0.5, 1.0, 1.5)) * SCALING_SECONDS


def jobs(
    draw: random.Random,
    hours: float,
    every: float,
    life: float = 0.0,
    *,
    tail: float = 0.0,
    most: int = LARGEST_BATCH,
) -> Iterator[Wish]:
    """Batches of equal pods, at random times, about one in ``every`` seconds. Lifetimes are exponential with the mean
    ``life``, or of a Pareto distribution with the exponent ``tail``."""
    at, number = START, 0
    kinds = [_kind(draw, i) for i in range(24)]
    while at < START + hours * HOUR:
        kind = draw.choice(kinds)
        for _ in range(draw.randint(SMALLEST_BATCH, most)):
            number += 1
            pod = _named(kind, f"{kind.name}-{number}", at)
            pod = replace(pod, owner=_owner("Job", pod.name))
            lives = LEAST_LIFE * draw.paretovariate(tail) if tail else draw.expovariate(1 / life)
            yield Arrival(at, pod)
            yield Removal(_on_the_minute(at + min(max(lives, LEAST_LIFE), MOST_LIFE)), _uid(pod))
        at += draw.expovariate(1 / every)


def _on_the_minute(at: float) -> float:
    """What looks at jobs does so once a minute; so much fewer moments have to be simulated."""
    return math.ceil(at / MINUTE) * MINUTE


def growth(draw: random.Random, count: int, hours: float) -> Iterator[Wish]:
    """Zipf deployments whose pods arrive in a random order, in batches of equal size, and stay."""
    pods = workloads.zipf(count, seed=11)
    draw.shuffle(pods)
    batches = max(1, count // 100)
    for i, pod in enumerate(pods):
        at = START + (i * batches // count) * hours * HOUR / batches
        owner = _owner("ReplicaSet", pod.labels["app"])
        yield Arrival(at, replace(pod, created_at=at, owner=owner))


def _kind(draw: random.Random, i: int) -> Pod:
    cpu = draw.choices(workloads.DEPLOYMENT_CPU_MILLI, workloads.DEPLOYMENT_CPU_WEIGHTS)[0]
    memory = max(64, round(cpu / 1000 * draw.lognormvariate(0.95, 0.75) * 32) * 32)
    return workloads.pod(f"job-{i:02d}", cpu, memory, labels={"app": f"job-{i:02d}"})


def _named(like: Pod, name: str, at: float) -> Pod:
    return replace(like, uid=f"uid-{name}", name=name, created_at=at)


def _owner(kind: str, name: str) -> Owner:
    return Owner(kind, name, f"uid-of-{name}")


def _uid(pod: Pod) -> str:
    assert pod.owner is not None
    return pod.owner.uid
