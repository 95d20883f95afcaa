"""A seeded day of a large cluster that runs already: what its users want, for ``bench.over_time.replaying``.

About 1,000 nodes with 12,000 pods in 200 deployments. Deployments follow a curve over the day as a
HorizontalPodAutoscaler does, some get a new ReplicaSet by a rolling update, and jobs come every few minutes.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from bench.inputs import workloads
from bench.inputs.clusters import NOW, Shape, cluster
from bench.over_time.days import HOUR, MINUTE
from cli.decisions.replaying.demand import Arrival, Removal, Wish, as_new
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.nodepools import Budget
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Owner, Pod

USUAL_NODES = 1_000
PODS_PER_NODE = 10.0
SHARE, SWING, NOISE = 0.85, 0.15, 0.03
"""Size of a deployment as a share of its largest: the mean, how far the day moves it, and how far chance does."""
TOLERANCE = 0.1
"""A HorizontalPodAutoscaler leaves smaller differences alone."""
SCALING_SECONDS = 5 * MINUTE
UPDATED = 0.3
"""Share of the deployments that get a new version in this day, a quarter of their pods a minute."""
KINDS_OF_JOBS = 24


class RecordedDay(NamedTuple):
    """``start``: the cluster at ``NOW``, when the day begins."""

    start: Snapshot
    hours: float
    wishes: tuple[Wish, ...]


def recorded_day(
    catalogue: Catalogue, nodes: int = USUAL_NODES, hours: float = 24.0
) -> RecordedDay:
    """``nodes``: about so many on average."""
    shape = Shape("recorded day", "FewestNodes", (1.0, 1.0), 8, PODS_PER_NODE)
    found = cluster(shape, round(1.1 * nodes), catalogue)
    pool = replace(found.pools[0], budgets=(Budget("10%"),), consolidate_after_seconds=5 * MINUTE)
    start = replace(found, pools=(pool,))
    draw = random.Random(f"day of {nodes}")
    wishes = [*_deployments(draw, start.pods, hours), *_jobs(draw, nodes, hours)]
    within = (one for one in wishes if one.at < NOW + hours * HOUR)
    return RecordedDay(start, hours, tuple(sorted(within, key=lambda one: one.at)))


def _deployments(draw: random.Random, pods: tuple[Pod, ...], hours: float) -> Iterator[Wish]:
    members: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        members[pod.labels["app"]].append(pod)
    for app, own in sorted(members.items()):
        yield from _deployment(draw, app, own[0], len(own), hours)


def _deployment(
    draw: random.Random, app: str, like: Pod, alive: int, hours: float
) -> Iterator[Wish]:
    """Wishes in order of time. Its first ReplicaSet is that of ``like``."""
    most, lag = alive / SHARE, draw.uniform(-1, 1) * HOUR
    updates = NOW + draw.uniform(0, 24) * HOUR if draw.random() < UPDATED else math.inf
    at, number, owner = _on_the_minute(NOW + draw.uniform(0, SCALING_SECONDS)), 0, like.owner
    assert owner is not None
    while at < NOW + hours * HOUR:
        if at >= updates:
            fresh, updates = Owner("ReplicaSet", f"{app}-2", f"uid-{app}-2"), math.inf
            for step in range(4):
                for _ in range(step * alive // 4, (step + 1) * alive // 4):
                    number += 1
                    yield _arrival(replace(like, owner=fresh), f"{app}-{number}", at)
                    yield Removal(at + MINUTE, owner.uid)
                at += MINUTE
            owner = fresh
        angle = 2 * math.pi * (at - NOW - lag) / (24 * HOUR)
        wanted = most * (SHARE + SWING * math.sin(angle) + draw.uniform(-NOISE, NOISE))
        desired = max(1, round(wanted))
        if abs(desired - alive) > TOLERANCE * alive:
            for _ in range(alive, desired):
                number += 1
                yield _arrival(replace(like, owner=owner), f"{app}-{number}", at)
            for _ in range(desired, alive):
                yield Removal(at, owner.uid)
            alive = desired
        at += SCALING_SECONDS


def _arrival(like: Pod, name: str, at: float) -> Arrival:
    return Arrival(at, as_new(replace(like, name=name), at, f"uid-{name}"))


def _jobs(draw: random.Random, nodes: int, hours: float) -> Iterator[Wish]:
    """Each kind has a period of its own; its pods end one by one, as seen once a minute."""
    size = max(1, nodes // 50)
    for kind in range(KINDS_OF_JOBS):
        every = draw.choice((10, 15, 30, 60, 60)) * MINUTE
        cpu, memory = draw.choice(((250, 512), (500, 1024), (1000, 2048), (2000, 4096)))
        at = _on_the_minute(NOW + draw.uniform(0, every))
        while at < NOW + hours * HOUR:
            for number in range(draw.randint(1, size)):
                name = f"job-{kind:02d}-{at - NOW:.0f}-{number}"
                pod = job(name, cpu, memory)
                yield _arrival(pod, name, at)
                lives = min(2 * MINUTE + draw.expovariate(1 / (10 * MINUTE)), HOUR)
                yield Removal(_on_the_minute(at + lives), f"uid-of-{name}")
            at += every


def _on_the_minute(at: float) -> float:
    """Cron jobs begin on the minute, and what scales deployments looks at all of them at the same times."""
    return math.ceil(at / MINUTE) * MINUTE


def job(name: str, cpu_milli: int, memory_mib: int) -> Pod:
    """A pod of a Job."""
    made = workloads.pod(name, cpu_milli, memory_mib, labels={"app": name.rsplit("-", 2)[0]})
    return replace(made, owner=Owner("Job", name, f"uid-of-{name}"))
