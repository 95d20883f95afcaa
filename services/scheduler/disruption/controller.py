"""Decides which machines go, one command at a time, and has ``commands`` carry it out (DIS-01..05, DIS-27).

Each step: let running commands go on, bring the conditions of machines up to date, delete those whose time is up, and
now and then evaluate all machines for a new command. The methods are tried in their generation's order; the first that
finds something wins. A consolidation is validated again after a delay and dropped when it is not right any more.
Nothing is decided on a mirror that is incomplete or old (OPS-13), or by a clock that Redis' clock contradicts: ages,
delays, windows of budgets and hours of pools would all be wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from services.scheduler.actions import MachineActions
from services.scheduler.approval.approvals import Approvals, Start
from services.scheduler.disruption.command_record import start_id, with_names_of_its_own
from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.condition_writer import ConditionWriter
from services.scheduler.disruption.conditions import ConditionChange
from services.scheduler.disruption.deadlines import Deadlines
from services.scheduler.disruption.methods import (
    Findings,
    Inputs,
    Method,
    allowed_in,
    delayed,
    inputs_of,
)
from services.scheduler.disruption.passes import methods_in, surveyed
from services.scheduler.disruption.reporting import DisruptionReporter
from services.scheduler.disruption.scale_down_rules import rules_of
from services.scheduler.disruption.schedule import Pending, Schedule
from services.scheduler.state.cluster import ClusterState
from services.scheduler.state.kept_room import KeptRoom
from services.scheduler.state.recording import Found, Recording
from services.scheduler.static_capacity.controller import StaticCapacity
from services.scheduler.static_capacity.kept_capacity import KeptCapacityFiller
from shared.concurrency.clock import Clock
from shared.disruption.budgets import REASONS, by_budget, usage
from shared.disruption.delays import delayed as delayed_pools
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.records import Command, Proposal, Rejection, World
from shared.disruption.validation import validate
from shared.domain.machines.machine import EMPTY, Machine
from shared.domain.pools.generations import GENERATIONS, Generation
from shared.domain.pools.kept_capacity import keeps_capacity
from shared.domain.snapshot import Snapshot
from shared.log import get_logger
from shared.runtime.archive.writing import Taken
from shared.settings import SchedulerSettings
from shared.simulation.decisions.records import PassQuestion, ValidationQuestion
from shared.solver.solve import SolverSettings

log = get_logger(__name__)

UNCHANGED_SECONDS = 300.0
"""How long a pass that found nothing stands while the cluster does not change (DIS-27)."""
MOST_POSTPONED_SECONDS = 30.0
"""Pods that wait come first, but not without end."""


@dataclass(frozen=True)
class Provisioning:
    """``nominated``: names of nodes and machines that pods are to run on; ``is_batching``: do pods wait for a plan?
    ``solver_settings``: as the operator chose; ``kept_room``: for pods that do not exist yet."""

    nominated: Callable[[], set[str]]
    is_batching: Callable[[], bool]
    solver_settings: Callable[[], SolverSettings]
    kept_room: KeptRoom


class Evaluation(NamedTuple):
    """What one pass or one validation is computed from. ``taken``: for its record."""

    taken: Taken | None
    question: PassQuestion
    world: World


@dataclass
class Disruption:
    settings: SchedulerSettings
    clock: Clock
    cluster: ClusterState
    provisioning: Provisioning
    actions: MachineActions
    commands: Commands
    conditions: ConditionWriter
    static_capacity: StaticCapacity
    kept_capacity: KeptCapacityFiller
    reporter: DisruptionReporter
    recording: Recording
    approvals: Approvals
    start: Start
    """Begins a command: ``Approvals.start``, or nothing in a shadow."""
    findings: Findings = field(default_factory=Findings)
    _clock_doubted: bool = False
    _schedules: dict[Generation, Schedule] = field(
        default_factory=lambda: {one: Schedule() for one in GENERATIONS.values()}
    )

    def status(self) -> dict[str, object]:
        """For ``/status``. ``off``: nothing is disrupted, whoever switched it off; ``poolsOff``: keys."""
        pools = self.cluster.view.pools()
        halted = sorted(key for key, pool in pools.items() if pool.disruption_off)
        return {
            "off": self._is_off() or (bool(pools) and len(halted) == len(pools)),
            "offBySetting": self._is_off(),
            "clock": self.cluster.clock_doubt(),
            "poolsOff": halted,
            "delayed": self._delayed(),
            "candidates": len(self.findings.candidates),
            "waitingForASecondLook": [
                {"method": c.method, "reason": c.reason, "text": c.text} for c in self.pending()
            ],
            "commands": [
                {"id": r.id, "method": r.method, "reason": r.reason, "text": r.text}
                for r in self.commands.records()
            ],
            "stay": self.findings.stay(),
        }

    def pending(self) -> list[Command]:
        """Those that wait for their validation."""
        return [one.pending.command for one in self._schedules.values() if one.pending]

    async def step(self) -> None:
        """Evaluate every machine once."""
        if self.cluster.not_synced():
            return
        # Running commands first: what they came to decides what budgets have left for new ones.
        await self.commands.step()
        self.commands.changes.note(self.cluster.view.machines())
        await self.commands.clean()
        for change in await self.conditions.step():
            self._hasten(change)
        doubt = self._note_clock()
        if not doubt and not self._is_off():
            due = Deadlines(self.cluster, self.actions, self.reporter, self.commands)
            await due.delete(now=self.clock.now())
        if self.settings.feature_gates.static_capacity:
            await self._keep_replicas()
        await self._keep_capacity()
        await self.approvals.load()
        await self.approvals.tidy()
        if not doubt:
            await self._decide_all()

    async def decide(self) -> None:
        """Only look for commands, as a shadow does: those that run are the real scheduler's."""
        if not self.cluster.not_synced() and not self.cluster.clock_doubt():
            self.commands.changes.note(self.cluster.view.machines())
            await self.approvals.load()
            await self._decide_all()

    async def _decide_all(self) -> None:
        for generation, schedule in self._schedules.items():
            await self._decide(generation, schedule)

    def _note_clock(self) -> str:
        """Why nothing is decided by the wall clock now; logged when it changes. Pods are planned for all the same."""
        doubt = self.cluster.clock_doubt()
        if bool(doubt) != self._clock_doubted:
            log.warning("disruption waits for the clock" if doubt else "clock agrees", why=doubt)
        self._clock_doubted = bool(doubt)
        return doubt

    def _is_off(self) -> bool:
        return self.settings.disruption == "off"

    def _hasten(self, change: ConditionChange) -> None:
        """A machine may be due before the next regular pass."""
        if not change.is_true:
            return
        pool = self.cluster.view.pools().get(change.machine.pool_key)
        ttl = (pool.empty_ttl_seconds or 0.0) if pool and change.condition == EMPTY else 0.0
        schedule = self._schedules[change.machine.api]
        schedule.next_pass = min(schedule.next_pass, self.clock.monotonic() + ttl)

    async def _keep_capacity(self) -> None:
        """Pools get the machines of their minimum and headroom."""
        if not any(map(keeps_capacity, self.cluster.view.pools().values())):
            self.kept_capacity.metrics.kept_missing.replace({})
            return
        snapshot = await self.cluster.snapshot()
        if snapshot is not None:
            busy, options = self.commands.busy(), self.provisioning.solver_settings()
            await self.kept_capacity.reconcile(snapshot, busy, options)

    async def _keep_replicas(self) -> None:
        """Static pools get their number of machines (GAT-01)."""
        if not any(pool.is_static for pool in self.cluster.view.pools().values()):
            return
        snapshot = await self.cluster.snapshot()
        if snapshot is not None:
            busy, options = self.commands.busy(), self.provisioning.solver_settings()
            await self.static_capacity.reconcile(snapshot, busy, options)

    async def _decide(self, generation: Generation, schedule: Schedule) -> None:
        now = self.clock.monotonic()
        if schedule.pending is None and not self._must_wait(generation, schedule, now):
            approved = self.approvals.approved(generation)
            schedule.pending = None if approved is None else Pending(approved, now)
        if schedule.pending is not None:
            if now >= schedule.pending.due:
                try:
                    await self._validate(generation, schedule, schedule.pending.command)
                finally:
                    schedule.pending = None
            return
        if now < schedule.next_pass or self._must_wait(generation, schedule, now):
            return
        evaluation = await self._evaluation(generation, schedule)
        if evaluation is None:
            return
        found = await self._first_command(evaluation, schedule)
        if found is None:
            schedule.next_pass = now + self.settings.disruption_period
        elif delayed(found.command):
            schedule.pending = Pending(found.command, now + self.settings.validation_delay)
            await self.reporter.proposed(found.command)
        else:
            await self._start(found, evaluation.world)

    def _must_wait(self, generation: Generation, schedule: Schedule, now: float) -> bool:
        """v1alpha5: one command at a time (DIS-05). Pods that wait are planned for first, but not without end."""
        if generation.one_command_at_a_time and any(
            key.startswith("Machine/") for key in self.commands.candidates()
        ):
            return True
        return self.provisioning.is_batching() and now - schedule.next_pass < MOST_POSTPONED_SECONDS

    async def _evaluation(self, generation: Generation, schedule: Schedule) -> Evaluation | None:
        snapshot = await self.cluster.snapshot()
        if snapshot is None:
            return None
        taken = self.recording.taken(snapshot)
        question = await self._question(generation, schedule)
        seated = await self.provisioning.kept_room.seat(snapshot, question)
        world, found = surveyed(seated, question)
        self.findings.surveyed, self.findings.candidates = found.rejections, found.candidates
        self.findings.allowed = world.allowed
        await self._report(snapshot, frozenset(question.busy), now=question.now)
        return Evaluation(taken, question, world)

    async def _question(self, generation: Generation, schedule: Schedule) -> PassQuestion:
        """All that a pass depends on beside the snapshot."""
        nominated = self.provisioning.nominated() | self.commands.targets()
        rules = rules_of(self.settings)
        return PassQuestion(
            now=self.clock.now(),
            generation=generation.name,
            settings=self.provisioning.solver_settings(),
            gates=self.settings.feature_gates,
            consolidation=self.settings.consolidation,
            churn=self._churn(),
            off=self._is_off(),
            nominated=tuple(sorted(nominated)),
            busy=tuple(sorted(self.commands.busy())),
            offered=tuple(sorted(self._offered(schedule))),
            spent=await self.commands.rate.spent(),
            unseen=tuple(sorted(schedule.unseen)),
            rules=rules,
            changes=self.commands.changes.that_count(self.cluster.view.pools().values(), rules),
            drift_held=tuple(sorted(self.commands.drift_held())),
        )

    def _offered(self, schedule: Schedule) -> set[str]:
        """UIDs of machines that wait for an approval, without those of what is validated."""
        return self.approvals.held(schedule.pending.command if schedule.pending else None)

    async def _report(self, snapshot: Snapshot, busy: Set[str], *, now: float) -> None:
        """What the survey found, whatever comes of it."""
        nodes = {node.name: node for node in snapshot.nodes}
        reporter = self.reporter
        reporter.eligible(self.findings.candidates)
        reporter.consuming(snapshot, usage(snapshot.machines, nodes, busy)[1], REASONS)
        budgets = by_budget(snapshot.pools, snapshot.machines, nodes, now=now)
        await reporter.budgets(snapshot, budgets)
        await reporter.annotations(snapshot.pods, now=now)

    async def _first_command(self, evaluation: Evaluation, schedule: Schedule) -> Found | None:
        """Of the first method that finds something (DIS-03, DIS-05)."""
        taken, question, world = evaluation
        inputs = inputs_of(world, question.churn)
        quiet = self._is_quiet(inputs, schedule)
        question = replace(question, quiet=quiet)
        tried: list[tuple[str, Proposal]] = []
        found = None
        for method in methods_in(question):
            proposal = await self._propose(method, world, question.generation)
            tried.append((method.name, proposal))
            if method.remembers:
                schedule.unseen = frozenset(proposal.unseen)
            if proposal.commands:
                found = self._found(proposal.commands[0])
                break
        self.recording.passed(taken, question, tried, found)
        if found is None and not quiet and allowed_in(world):
            schedule.quiet = inputs
            schedule.quiet_since = self.clock.monotonic()
        return found

    def _found(self, command: Command, *, validated: bool = False) -> Found:
        """``validated``: it starts now, as one that needs no validation does."""
        rejected = tuple(self.findings.rejected(command))
        if delayed(command) and not validated:
            return Found(command, command.id, rejected=rejected)
        id_ = start_id(command, self.clock.now())
        created = with_names_of_its_own(command, id_).replacements
        return Found(command, id_, tuple(one.name for one in created), rejected)

    def _delayed(self) -> dict[str, str]:
        """Pool key -> why emptiness and consolidation leave its nodes alone now."""
        rules, pools = rules_of(self.settings), self.cluster.view.pools().values()
        changes = self.commands.changes.that_count(pools, rules)
        return delayed_pools(pools, rules, changes, now=self.clock.now())

    def _churn(self) -> Churn:
        return Churn(
            move_cost_micro_usd=round(self.settings.consolidation_move_cost * 1_000_000),
            payback_seconds=max(1, round(self.settings.consolidation_payback)),
            rest_seconds=self.settings.consolidation_rest,
        )

    def _is_quiet(self, inputs: Inputs, schedule: Schedule) -> bool:
        """Would consolidation find nothing again (DIS-27)?"""
        same = schedule.quiet == inputs and not schedule.unseen
        return same and self.clock.monotonic() - schedule.quiet_since < UNCHANGED_SECONDS

    async def _propose(self, method: Method, world: World, generation: str) -> Proposal:
        started = self.clock.monotonic()
        proposal = await asyncio.to_thread(method.propose, world)
        seconds = self.clock.monotonic() - started
        late = bool(proposal.unseen)
        self.reporter.pass_done(method.name, GENERATIONS[generation], seconds=seconds, late=late)
        self.reporter.balanced_scores(world.balanced_scores)
        world.balanced_scores.clear()
        self.findings.by_method[method.name, generation] = proposal.rejections
        await self._explain(proposal.rejections, world)
        return proposal

    async def _explain(self, rejections: Sequence[Rejection], world: World) -> None:
        nodes = {node.name: node for node in world.snapshot.nodes}
        machines: dict[str, Machine] = {m.key: m for m in world.snapshot.machines}
        await self.reporter.rejected(rejections, nodes, machines)

    async def _validate(self, generation: Generation, schedule: Schedule, command: Command) -> None:
        """Start the command if it is still right (CON-11, DIS-31)."""
        evaluation = await self._evaluation(generation, schedule)
        if evaluation is None:
            return
        taken, question, world = evaluation
        verdict = await asyncio.to_thread(validate, world, command, question.churn)
        found = None if verdict.command is None else self._found(verdict.command, validated=True)
        self.recording.validated(taken, ValidationQuestion(question, command), verdict, found)
        if found is None:
            if not await self.approvals.postpones(command, verdict):
                await self.reporter.invalid(command, verdict)
            schedule.next_pass = self.clock.monotonic() + self.settings.disruption_period
            return
        await self.reporter.approved(found.command, command)
        await self._start(found, world)

    async def _start(self, found: Found, world: World) -> None:
        await self.start(found.command, found.id, world, found.rejected)
