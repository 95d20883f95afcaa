"""A whole scale-out and scale-in through the simulated planner: 30,000 pods, about 1,000 nodes, half of them, none.

Run ``python -m bench.over_time.scale``. The pods of 200 deployments arrive in batches of 1,000, a batch each minute;
then every deployment loses half of its pods, consolidation works until it finds nothing more, and all pods leave.
Rounds, passes and validations are the scheduler's own, in simulated time (the engine of ``dovetail replay --from``).
Each simulated quarter of an hour is shown on stderr. ``--picture FILE`` draws pods, machines and cost as SVG.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from bench.inputs import workloads
from bench.inputs.clusters import types_up_to
from bench.over_time.day import Way, empty_cluster, rules_of
from bench.over_time.days import HOUR, MINUTE, START
from bench.over_time.scale_picture import draw
from bench.report import Row, save, show
from cli.decisions.replaying.cluster import Cluster
from cli.decisions.replaying.demand import Arrival, Removal, Wish
from cli.decisions.replaying.timeline import Timeline
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.domain.workloads.pods import Owner

PODS, QUICK_PODS = 30_000, 1_000
PODS_AT_ONCE = 1_000
MOST_CPU = 32
"""With larger types so many pods would fill far fewer nodes."""
HALVED, EMPTIED, END = 1.0, 3.0, 3.5
"""Hours from the beginning."""
SHOWN_SECONDS = 15 * MINUTE
WAY = Way("FewestNodes", "Global")


class Sample(NamedTuple):
    """The cluster at one moment; ``at`` in seconds from the beginning."""

    at: float
    wanted: int
    running: int
    machines: int
    micro_usd_per_hour: int


@dataclass
class Watched(Cluster):
    """A cluster that notes what it is, each simulated minute."""

    samples: list[Sample] = field(default_factory=list)
    begun: float = field(default_factory=time.process_time)

    def pass_time(self, until: float) -> None:
        """Notes the state that lasted until now, once a minute."""
        last = self.samples[-1].at if self.samples else -MINUTE
        if until - START - last >= MINUTE:
            self._note(until - START)
        super().pass_time(until)

    def _note(self, at: float) -> None:
        running = sum(bool(pod.node_name) for pod in self.pods.values())
        now = Sample(at, len(self.pods), running, len(self.machines), self.micro_usd_per_hour())
        if not self.samples or at // SHOWN_SECONDS > self.samples[-1].at // SHOWN_SECONDS:
            cpu = time.process_time() - self.begun
            print(
                f"{at / 60:4.0f} min: {now.running:,} of {now.wanted:,} pods run on "
                f"{now.machines:,} machines, ${now.micro_usd_per_hour / 1e6:.2f} an hour; "
                f"{self.totals.evictions:,} evictions; {cpu:.0f} s of CPU",
                file=sys.stderr,
                flush=True,
            )
        self.samples.append(now)


def wishes(count: int) -> Iterator[Wish]:
    """All pods in batches, half of each deployment away again, then the rest."""
    found = workloads.equal_deployments(count)
    for number, pod in enumerate(found):
        at = START + number // PODS_AT_ONCE * MINUTE
        app = pod.labels["app"]
        owner = Owner("ReplicaSet", app, f"uid-of-{app}")
        yield Arrival(at, replace(pod, created_at=at, owner=owner))
    for number, pod in enumerate(found):
        at = START + (HALVED if number % 2 else EMPTIED) * HOUR
        yield Removal(at, f"uid-of-{pod.labels['app']}")


def run(count: int, way: Way) -> Watched:
    """The whole story."""
    aws = bundled_catalogue()
    small = replace(aws, types=types_up_to(aws, MOST_CPU))
    cluster = Watched(empty_cluster(small), START)
    Timeline(cluster, rules_of(way), START + END * HOUR).run(sorted(wishes(count), key=_at))
    return cluster


def _at(wish: Wish) -> float:
    return wish.at


def rows_of(cluster: Watched, way: Way, cpu: float) -> list[Row]:
    """The figures of each part of the story."""
    parts = (("all pods", 0.0, HALVED), ("half of them", HALVED, EMPTIED), ("none", EMPTIED, END))
    found: list[Row] = []
    for name, begin, end in parts:
        last = [one for one in cluster.samples if begin * HOUR < one.at <= end * HOUR][-1]
        found.append({
            "part": name,
            "way": way.name,
            "pods": last.wanted,
            "running": last.running,
            "machines": last.machines,
            "$/h": round(last.micro_usd_per_hour / 1e6, 2),
        })  # fmt: skip
    return [
        {**row, "evictions in all": cluster.totals.evictions,
         "launches in all": cluster.totals.launches, "cpu s in all": round(cpu, 1)}
        for row in found
    ]  # fmt: skip


def main() -> None:
    """Plays the story, prints its figures and draws it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help=f"({PODS:,})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PODS:,} pods")
    parser.add_argument("--policy", default=WAY.policy)
    parser.add_argument("--consolidation", default=WAY.consolidation)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the story as SVG")
    chosen = parser.parse_args()
    count = QUICK_PODS if chosen.quick else chosen.pods
    way = Way(chosen.policy, chosen.consolidation)
    begun = time.process_time()
    cluster = run(count, way)
    rows = rows_of(cluster, way, time.process_time() - begun)
    show("Scale", rows)
    save(chosen.json, {"scale": rows})
    if chosen.picture:
        chosen.picture.write_text(draw(cluster.samples, f"{count:,} pods, half of them, none"))


if __name__ == "__main__":
    main()
