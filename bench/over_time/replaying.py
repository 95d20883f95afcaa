"""What ``dovetail replay --from … --with …`` takes for a recorded day of 1,000 nodes and 10,000 pods.

Run ``python -m bench.over_time.replaying``. The day is made, its pods' changes are recorded into an archive as the
scheduler records them, with a decision a minute, and the archive is replayed twice, as the command does it: with the
recorded settings, and with a pool whose ``consolidateAfter`` is another one. CPU seconds are those of the whole
command: reading the archive and both courses.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.inputs.clusters import NOW
from bench.over_time.days import HOUR, MINUTE
from bench.over_time.recorded_day import USUAL_NODES, RecordedDay, recorded_day
from bench.report import Row, save, show
from bench.stacks.decision_records import Recorded, recorded
from cli.decisions.replaying.changes import Changes
from cli.decisions.replaying.demand import Arrival, Removal, Wish, workload_of
from cli.decisions.replaying.period import Compared, compare_period, facts
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.disruption.global_consolidation.churn import Churn
from shared.domain.feature_gates import FeatureGates
from shared.domain.records import NODES, PODS
from shared.domain.workloads.pods import Pod
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import DirectoryStore
from shared.runtime.archive.writing import Draft
from shared.simulation.decisions.assembling import assembled
from shared.simulation.decisions.records import PassQuestion, PlanQuestion, pass_outcome
from shared.solver.solve import SolverSettings

CLUSTER = "bench"
OTHER_WAIT_SECONDS = 30 * MINUTE


class Recording:
    """A day on its way into an archive. Where its pods run does not matter for what their users want."""

    def __init__(self, day: RecordedDay, folder: Path) -> None:
        self._day, self._draw = day, random.Random(1)
        self._world: Recorded = recorded(day.start, folder)
        self._alive: dict[str, list[Pod]] = defaultdict(list)
        for pod in day.start.pods:
            self._alive[workload_of(pod)].append(pod)

    async def run(self) -> None:
        """A plan and a pass a minute are recorded, the first ones with the whole cluster."""
        world, settings = self._world, SolverSettings()
        wishes = list(reversed(self._day.wishes))
        for minute in range(round(self._day.hours * 60) + 1):
            world.clock.seconds = now = NOW + minute * MINUTE
            while wishes and wishes[-1].at <= now:
                self._fulfil(wishes.pop())
            for question in (
                PlanQuestion(now, settings),
                PassQuestion(now, "v1", settings, FeatureGates(), "Karpenter", Churn()),
            ):
                self._decided(question)
            await world.recorder.step()
        await world.recorder.close()

    def _fulfil(self, wish: Wish) -> None:
        if isinstance(wish, Arrival):
            pod = wish.pod
            self._put(pod)
            on = self._draw.choice(list(self._world.kinds[NODES]))
            self._put(replace(pod, node_name=on, unschedulable=False, phase="Running"))
            self._alive[workload_of(pod)].append(pod)
        elif isinstance(wish, Removal) and self._alive[wish.workload]:
            self._world.put(PODS, self._alive[wish.workload].pop().key, None)

    def _put(self, pod: Pod) -> None:
        self._world.put(PODS, pod.key, msgspec.json.encode(pod))

    def _decided(self, question: PlanQuestion | PassQuestion) -> None:
        """What was decided is not read by a replay with other settings."""
        world = self._world
        snapshot = replace(self._day.start, generation=world.generation)
        if world.clock.seconds == NOW:
            snapshot = assembled(
                world._records,
                generation=world.generation,
                machines=self._day.start.machines,
                catalogue=self._day.start.catalogue,
                unavailable=frozenset(),
            )
        world.note()
        world.recorder.decided(
            Draft(
                taken=world.recorder.taken(snapshot, snapshot, ()),
                id="",
                at=world.clock.seconds,
                seconds=0.1,
                epoch=1,
                question=question,
                outcome=pass_outcome([]),
                text="made",
            )
        )


async def _replayed(day: RecordedDay, folder: Path) -> Compared:
    pools = tuple(
        replace(pool, consolidate_after_seconds=OTHER_WAIT_SECONDS) for pool in day.start.pools
    )
    archive = Archive(DirectoryStore(folder), CLUSTER, "main")
    return await compare_period(archive, NOW, NOW + day.hours * HOUR, Changes({}, "", pools))


def measure(nodes: int, hours: float) -> Iterable[Row]:
    """One row for each course."""
    day = recorded_day(bundled_catalogue(), nodes, hours)
    folder = Path(tempfile.mkdtemp(prefix="replaying-"))
    try:
        asyncio.run(Recording(day, folder).run())
        begun = time.process_time()
        found = asyncio.run(_replayed(day, folder))
        cpu = time.process_time() - begun
    finally:
        shutil.rmtree(folder)
    for name, totals in (("as recorded", found.recorded), ("changed", found.changed)):
        yield {
            "nodes": len(day.start.nodes),
            "pods": len(day.start.pods),
            "hours": hours,
            "pods that come": found.pods,
            "course": name,
            **facts(totals),
            "cpu s, both": round(cpu, 1),
        }


def main() -> None:
    """Prints and saves one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=USUAL_NODES)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--quick", action="store_true", help="30 nodes, half an hour")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    nodes, hours = (30, 0.5) if chosen.quick else (chosen.nodes, chosen.hours)
    rows = list(measure(nodes, hours))
    show("A recorded day, replayed", rows)
    save(chosen.json, {"replaying": rows})


if __name__ == "__main__":
    main()
