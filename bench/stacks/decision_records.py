"""What decision records cost: bytes and CPU of one round, in a cluster of 1,000 nodes and 10,000 pods.

Run ``python -m bench.stacks.decision_records``. Every ten seconds of simulated time 1 % of the pods are replaced, a
batch of them is planned, and one pass of disruption looks at all machines. The CPU of recording is compared with that
of reading the changed records and of the decisions in the same process, and with the ten seconds.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.inputs.clusters import Shape, cluster
from bench.report import Row, options, save, show
from services.scheduler.disruption.passes import pass_again
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.concurrency.clock import Clock
from shared.disruption.global_consolidation.churn import Churn
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.types import Catalogue
from shared.domain.records import MACHINES, NODE_CLASSES, NODE_POOLS, NODES, PODS
from shared.domain.snapshot import Snapshot
from shared.runtime.archive.recorder import Counts, DecisionRecorder
from shared.runtime.archive.store import DirectoryStore
from shared.runtime.archive.writing import Draft, LogWriter
from shared.simulation.decisions.assembling import DecodedRecords, assembled
from shared.simulation.decisions.changes import Versions
from shared.simulation.decisions.records import PassQuestion, PlanQuestion
from shared.simulation.decisions.retention import Retention
from shared.solver.solve import SolverSettings, solve

ROUND_SECONDS = 10.0
ROUNDS = 30
REPLACED = 0.01
"""Share of the pods that are replaced between two rounds."""
PODS_PER_NODE = 10.0


@dataclass
class Time:
    """Simulated."""

    seconds: float

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class Costs:
    """CPU seconds by what they were spent for."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Counts the CPU time of the whole process."""
        started = time.process_time()
        yield
        self.spent[what] = self.spent.get(what, 0.0) + time.process_time() - started


@dataclass
class Recorded:
    """A cluster whose rounds are recorded. ``kinds``: as the mirror's reader has them."""

    snapshot: Snapshot
    clock: Time
    recorder: DecisionRecorder
    kinds: dict[str, dict[str, bytes]]
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    costs: Costs = field(default_factory=Costs)
    decoded: DecodedRecords = field(default_factory=DecodedRecords)
    generation: int = 0
    changes: list[tuple[str, str, bytes | None, int]] = field(default_factory=list)
    """Not noted yet."""

    def put(self, kind: str, key: str, body: bytes | None) -> None:
        """One change of the mirror."""
        self.generation += 1
        if body is None:
            self.kinds[kind].pop(key, None)
        else:
            self.kinds.setdefault(kind, {})[key] = body
        self.changes.append((kind, key, body, self.generation))

    def note(self) -> None:
        """All changes since the last time, in one measurement: to measure costs more than to note one."""
        with self.costs.of("recording"):
            for change in self.changes:
                self.recorder.note(*change)
        self.changes.clear()

    def change(self) -> None:
        """Replace some pods by pods that wait."""
        bound = [one for one in self._records(PODS).values() if one.node_name]
        for pod in self.chance.sample(bound, round(len(bound) * REPLACED)):
            self.put(PODS, pod.key, None)
            made = replace(
                pod,
                uid=f"{pod.uid}-{self.generation}",
                name=f"{pod.name[:40]}-{self.generation}",
                node_name="",
                unschedulable=True,
                phase="Pending",
            )
            self.put(PODS, made.key, msgspec.json.encode(made))

    async def round(self) -> None:
        """One plan and one pass."""
        self.clock.seconds += ROUND_SECONDS
        self.change()
        with self.costs.of("reading"):
            self._records(PODS)
        now, settings = self.clock.now(), SolverSettings()
        self._decide(PlanQuestion(now, settings))
        self._bind()
        self._decide(PassQuestion(now, "v1", settings, FeatureGates(), "Karpenter", Churn()))
        self.note()
        with self.costs.of("recording"):
            await self.recorder.step()

    def _decide(self, question: PlanQuestion | PassQuestion) -> None:
        with self.costs.of("reading"):
            snapshot = assembled(
                self._records,
                generation=self.generation,
                machines=self._records(MACHINES).values(),
                catalogue=self.snapshot.catalogue,
                unavailable=frozenset(),
            )
        self.note()
        with self.costs.of("recording"):
            taken = self.recorder.taken(snapshot, snapshot, ())
        with self.costs.of("deciding"):
            outcome: Any
            if isinstance(question, PlanQuestion):
                outcome = solve(snapshot, now=question.now, settings=question.settings)
            else:
                outcome = pass_again(snapshot, question)
        with self.costs.of("recording"):
            self.recorder.decided(
                Draft(
                    taken=taken,
                    id="",
                    at=self.clock.now(),
                    seconds=0.1,
                    epoch=1,
                    question=question,
                    outcome=outcome,
                    text="measured",
                )
            )

    def _bind(self) -> None:
        """Each waiting pod runs somewhere: where does not matter here."""
        names = list(self.kinds[NODES])
        for pod in self._records(PODS).values():
            if not pod.node_name:
                on = self.chance.choice(names)
                running = replace(pod, node_name=on, unschedulable=False, phase="Running")
                self.put(PODS, pod.key, msgspec.json.encode(running))

    def _records(self, kind: str) -> Mapping[str, Any]:
        return self.decoded.of(kind, self.kinds.get(kind, {}))


def _ignored(_number: int) -> None:
    """No metrics here."""


def recorded(snapshot: Snapshot, folder: Path) -> Recorded:
    """A cluster whose rounds are recorded in ``folder``."""
    clock: Clock = (time_ := Time(1_800_000_000.0))
    kinds: dict[str, dict[str, bytes]] = {}
    recorder = DecisionRecorder(
        store=DirectoryStore(folder),
        writer=LogWriter("bench", False, Versions("bench", "", ""), "bench", 1 << 40),
        retention=Retention(1e9, 1 << 40),
        clock=clock,
        counts=Counts(_ignored, _ignored, _ignored, _ignored, _ignored),
        contents=lambda: kinds,
    )
    made = Recorded(snapshot, time_, recorder, kinds)
    for kind, records in (
        (PODS, snapshot.pods),
        (NODES, snapshot.nodes),
        (MACHINES, snapshot.machines),
        (NODE_POOLS, snapshot.pools),
        (NODE_CLASSES, snapshot.node_classes),
    ):
        for record in records:
            key = getattr(record, "key", record.name)
            made.put(kind, key, msgspec.json.encode(record))
    return made


async def _run(world: Recorded, rounds: int) -> None:
    await world.round()
    world.costs.spent.clear()
    for _ in range(rounds):
        await world.round()


def measure(nodes: int, rounds: int, catalogue: Catalogue) -> Row:
    """One row: the base of the series is not counted among the rounds' bytes and seconds."""
    shape = Shape("records", "FewestNodes", (1.0, 1.0), 8, PODS_PER_NODE)
    folder = Path(tempfile.mkdtemp(prefix="records-"))
    try:
        world = recorded(cluster(shape, nodes, catalogue), folder)
        asyncio.run(_run(world, rounds))
        asyncio.run(world.recorder.close())
        chunks = sum(path.stat().st_size for path in folder.rglob("log/*/*.zst"))
        blobs = sum(path.stat().st_size for path in folder.rglob("blobs/*.zst"))
    finally:
        shutil.rmtree(folder)
    spent = world.costs.spent
    return {
        "nodes": len(world.kinds[NODES]),
        "pods": len(world.kinds[PODS]),
        "rounds": rounds,
        "KiB a round": round(chunks / (rounds + 1) / 1024, 1),
        "KiB a series": round(blobs / 1024),
        "recording, CPU ms a round": round(spent["recording"] / rounds * 1000, 1),
        "deciding, CPU ms a round": round(spent["deciding"] / rounds * 1000, 1),
        "reading, CPU ms a round": round(spent["reading"] / rounds * 1000, 1),
        "% of all three": round(100 * spent["recording"] / sum(spent.values()), 2),
        "% of a core": round(100 * spent["recording"] / rounds / ROUND_SECONDS, 2),
    }


def main() -> None:
    """Measures and prints one table."""
    chosen = options(__doc__)
    sizes = ((100, 20),) if chosen.quick else ((100, ROUNDS), (1225, ROUNDS))
    catalogue = bundled_catalogue()
    rows = [measure(nodes, rounds, catalogue) for nodes, rounds in sizes]
    show("Decision records: bytes and CPU of one round", rows)
    save(chosen.json, {"records": rows})


if __name__ == "__main__":
    main()
