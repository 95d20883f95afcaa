"""A day of a made cluster: pods come and go, machines are bought and disrupted, and each round is recorded."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from services.scheduler.disruption.passes import methods_in, surveyed
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.records import Command, Proposal
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.shortages import Shortages
from shared.domain.labels import COMMAND_ANNOTATION
from shared.domain.machines.commands import CommandRecord, written
from shared.domain.records import MACHINES, NODE_CLASSES, NODE_POOLS, NODES, PODS
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import is_provisionable
from shared.runtime.archive.recorder import Counts, DecisionRecorder
from shared.runtime.archive.store import Store
from shared.runtime.archive.writing import Draft, LogWriter, Taken
from shared.simulation.decisions.assembling import DecodedRecords, assembled
from shared.simulation.decisions.changes import Versions
from shared.simulation.decisions.records import (
    PassQuestion,
    PlanQuestion,
    pass_outcome,
)
from shared.simulation.decisions.retention import Retention
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings, solve
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_catalogue, make_node_class, make_pod, make_pool
from tests.support.planning.disruption import NOW, Running, make_running

CLUSTER = "made"
VERSIONS = Versions("1.0.0", "0123456789ab", "3.11")
SHAPES = (("250m", "256Mi"), ("1", "1Gi"), ("2", "4Gi"), ("3500m", "2Gi"))
ROUND_SECONDS = 80.0


def make_recorder(
    store: Store,
    clock: FakeClock,
    contents: Callable[[], Mapping[str, Mapping[str, bytes]]] = dict,
    counts: dict[str, Any] | None = None,
    **changes: Any,
) -> DecisionRecorder:
    """A recorder as the scheduler has it."""
    counted: dict[str, Any] = {name: lambda _: None for name in Counts.__dataclass_fields__}
    fields: dict[str, Any] = {"shadow": False, "series_bytes": 1 << 30, "suffix": "test"}
    return DecisionRecorder(
        store=store,
        writer=LogWriter(cluster=CLUSTER, versions=VERSIONS, **{**fields, **changes}),
        retention=Retention(7 * 86_400, 1 << 30),
        clock=clock,
        counts=Counts(**{**counted, **(counts or {})}),
        contents=contents,
    )


class Day:
    """One made cluster. ``settings``: of its planner; ``planner``: solves, as some version does; ``begin``: in seconds
    since the epoch; ``consolidates``: passes have commands, which takes a multiple of the time."""

    def __init__(
        self,
        store: Store,
        seed: int,
        settings: SolverSettings | None = None,
        planner: Callable[..., Plan] = solve,
        *,
        shadow: bool = False,
        begin: float = NOW,
        consolidates: bool = False,
    ) -> None:
        self.planner = planner
        self.chance = random.Random(seed)
        self.clock = FakeClock(wall=begin)
        self.kinds: dict[str, dict[str, bytes]] = {}
        self.lost = 0
        self.recorder = make_recorder(
            store,
            self.clock,
            lambda: self.kinds,
            {"lost": self._count_lost},
            shadow=shadow,
        )
        self.settings = settings or SolverSettings()
        self.catalogue = make_catalogue()
        self.shortages: Shortages = ()
        self.pool = make_pool(
            consolidation_policy="WhenUnderutilized",
            consolidate_after_seconds=0.0 if consolidates else None,
        )
        self._decoded = DecodedRecords()
        self._generation = 0
        self._made = 0
        self.put(NODE_POOLS, self.pool)
        self.put(NODE_CLASSES, make_node_class())

    def put(self, kind: str, record: Any) -> None:
        """One object is written."""
        self._note(kind, getattr(record, "key", record.name), msgspec.json.encode(record))

    def drop(self, kind: str, key: str) -> None:
        """One object is deleted."""
        self._note(kind, key, None)

    def records(self, kind: str) -> Mapping[str, Any]:
        """Key -> record."""
        return self._decoded.of(kind, self.kinds.get(kind, {}))

    async def run(self, rounds: int) -> None:
        """So many rounds: plans, and passes of disruption between them."""
        for number in range(rounds):
            self.clock.advance(ROUND_SECONDS)
            self.change()
            if number % 3 == 2:
                self.look()
            else:
                self.plan()
            await self.recorder.step()
        await self.recorder.close()

    def change(self) -> None:
        """Some pods come, some go."""
        pods = list(self.records(PODS).values())
        for pod in self.chance.sample(pods, min(len(pods) // 6, 4)):
            self.drop(PODS, pod.key)
        for _ in range(self.chance.randrange(5)):
            self._made += 1
            cpu, memory = self.chance.choice(SHAPES)
            self.put(PODS, make_pod(f"pod-{self._made}", cpu=cpu, memory=memory))

    def plan(self) -> None:
        """One round of provisioning, carried out at once."""
        shown = self.snapshot()
        counted = tuple(
            replace(pod, node_name=next(iter(self.records(NODES)), ""))
            if self.chance.random() < 0.02 and is_provisionable(pod)
            else pod
            for pod in shown.pods
        )
        snapshot = replace(shown, pods=counted)
        taken = self.recorder.taken(shown, snapshot, ())
        question = PlanQuestion(self.clock.now(), self.settings)
        plan = self.planner(snapshot, now=question.now, settings=question.settings)
        names = tuple(machine.name for machine in plan.machines)
        self.decided(taken, plan.id, question, plan, created=names)
        for planned in plan.machines:
            self._launch(planned, self._new(planned))
        for node, uids in plan.existing.items():
            self._bind(uids, node)

    def look(self) -> None:
        """One pass of disruption; what it deletes is gone at once."""
        snapshot = self.snapshot()
        taken = self.recorder.taken(snapshot, snapshot, ())
        question = PassQuestion(
            now=self.clock.now(),
            generation="v1alpha5",
            settings=self.settings,
            gates=FeatureGates(),
            consolidation="Karpenter",
            churn=Churn(),
        )
        world = surveyed(snapshot, question).world
        tried: list[tuple[str, Proposal]] = []
        for method in methods_in(question):
            tried.append((method.name, method.propose(world)))
            if tried[-1][1].commands:
                break
        command = next(iter(tried[-1][1].commands), None)
        self.decided(taken, command.id if command else "", question, pass_outcome(tried))
        if command is not None:
            self._carry_out(command)

    def snapshot(self) -> Snapshot:
        """As the scheduler would take it now."""
        return assembled(
            self.records,
            generation=self._generation,
            machines=self.records(MACHINES).values(),
            catalogue=self.catalogue,
            unavailable=frozenset(),
            shortages=self.shortages,
        )

    def _count_lost(self, number: int) -> None:
        self.lost += number

    def _note(self, kind: str, key: str, body: bytes | None) -> None:
        self._generation += 1
        bodies = self.kinds.setdefault(kind, {})
        if body is None:
            bodies.pop(key, None)
        else:
            bodies[key] = body
        self.recorder.note(kind, key, body, self._generation)

    def decided(
        self, taken: Taken, id_: str, question: Any, outcome: Any, created: tuple[str, ...] = ()
    ) -> None:
        """A decision on what was ``taken``."""
        self.recorder.decided(
            Draft(
                taken=taken,
                id=id_,
                at=self.clock.now(),
                seconds=0.01,
                epoch=1,
                question=question,
                outcome=outcome,
                text="made",
                created=created,
            )
        )

    def _carry_out(self, command: Command) -> None:
        """Its record is written on the machines first, as the scheduler does; all is done at once."""
        gone = tuple(candidate.machine.key for candidate in command.candidates)
        bought = [self._new(planned) for planned in command.replacements]
        new = tuple(one.machine.key for one in bought)
        now = self.clock.now()
        record = CommandRecord(command.id, command.method, command.reason, gone, new, now, True)
        note = {COMMAND_ANNOTATION: written(record)}
        for candidate in command.candidates:
            self.put(MACHINES, replace(candidate.machine, annotations=note))
        for candidate in command.candidates:
            self._remove(candidate.machine.key, candidate.node.name)
        for planned, one in zip(command.replacements, bought, strict=True):
            self._launch(planned, one)

    def _launch(self, planned: PlannedMachine, made: Running) -> None:
        self.put(MACHINES, made.machine)
        self.put(NODES, made.node)
        self._bind(planned.pods, made.node.name)

    def _new(self, planned: PlannedMachine) -> Running:
        self._made += 1
        at = planned.offering
        return make_running(
            f"n{self._made}",
            planned.instance_type,
            at.zone,
            at.capacity_type,
            self.pool,
            created_at=self.clock.now(),
        )

    def _bind(self, uids: tuple[str, ...], node: str) -> None:
        for pod in self.records(PODS).values():
            if pod.uid in uids:
                running = {"node_name": node, "unschedulable": False, "phase": "Running"}
                self.put(PODS, replace(pod, **running))

    def _remove(self, machine: str, node: str) -> None:
        self.drop(MACHINES, machine)
        self.drop(NODES, node)
        for pod in self.records(PODS).values():
            if pod.node_name == node:
                waiting = {"node_name": "", "unschedulable": True, "phase": "Pending"}
                self.put(PODS, replace(pod, **waiting))
