"""One provisioning round: wait for the window, take a snapshot, solve off the loop, write Machines, ring the launcher.

Rounds never overlap (BAT-07). Intent goes to the API server before any message: a crash after the first Machine is
written loses nothing, because the launcher lists Machines without an instance, and the next plan counts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.scheduler.evidence.need import Need
from services.scheduler.evidence.sync import not_synced
from services.scheduler.handover import Handover
from services.scheduler.provisioning import logs
from services.scheduler.provisioning.backoff import LOOK_SECONDS, Futility
from services.scheduler.provisioning.batching import Window
from services.scheduler.provisioning.decision_latency import Decisions
from services.scheduler.provisioning.pod_latency import PodWaits, placed_by
from services.scheduler.provisioning.preferences import Hints
from services.scheduler.provisioning.reporting import Reporter
from services.scheduler.state.view import View, pods_to_move, waiting_pods
from shared import streams
from shared.api.node_claims import planned_object
from shared.bus import Bus
from shared.clock import Clock
from shared.domain.machines import MACHINE_KINDS
from shared.domain.pods import Pod, SpreadConstraint, is_provisionable
from shared.domain.pool_usage import Counting
from shared.domain.resources import exceeded, sum_of
from shared.domain.snapshot import Snapshot
from shared.errors import AlreadyExists, DovetailError
from shared.kube.machines import Machines
from shared.leadership import Leadership
from shared.log import get_logger
from shared.messages import LaunchMachine, send
from shared.metrics import Metrics
from shared.metrics.scheduling import PROVISIONER
from shared.mirror.offerings import CatalogueSource, UnavailableOfferings
from shared.runtime import pause
from shared.settings import SchedulerSettings
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.reasons import OUT_OF_TIME
from shared.solver.relaxation import IGNORE
from shared.solver.solve import SolverSettings, solve

log = get_logger(__name__)

TICK_SECONDS = 0.02
"""How often an open window is looked at: a part of the 300 ms between its end and CreateFleet."""
RECHECK_SECONDS = 10.0
"""Pods that still wait trigger a new round this often (BAT-01)."""
LACKING_SECONDS = 1.0
"""The same while the catalogue lacks what some node class offers: that is told within seconds."""
NOT_SYNCED_PAUSE_SECONDS = 1.0
VERIFY_SECONDS = 3.0
"""Longer than between two heartbeats of the watcher: by then a picture is verified or wrong."""
SOLVE_SECONDS = 60.0
"""After this a plan holds what is placed by then (BAT-07)."""
CREATIONS_AT_ONCE = 16


@dataclass
class Planner:
    """Owns the window and the rounds."""

    settings: SchedulerSettings
    view: View
    machines: Machines
    bus: Bus
    clock: Clock
    metrics: Metrics
    catalogues: CatalogueSource
    unavailable: UnavailableOfferings
    reporter: Reporter
    handover: Handover
    leadership: Leadership
    need: Need
    window: Window = field(init=False)
    pod_waits: PodWaits = field(init=False)
    rounds: int = 0
    last_progress: float = 0.0
    """Monotonic time of the last look at the window."""
    last_plan: Plan | None = None
    problem: str = ""
    futility: Futility = field(default_factory=Futility)
    hints: Hints = field(default_factory=Hints)
    decisions: Decisions = field(default_factory=Decisions)
    default_spread: tuple[SpreadConstraint, ...] = ()
    """For pods without constraints of their own (SCH-85)."""
    _looked_at: float = float("-inf")
    _stale: bool = False
    _lacking: bool = False
    """Did the last round's catalogue lack anything?"""
    _nominated: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.window = Window(self.settings.batch_idle_duration, self.settings.batch_max_duration)
        self.pod_waits = PodWaits(self.metrics, self.clock)

    def trigger(self, uid: str) -> None:
        """A pod (or node) needs a plan."""
        now = self.clock.monotonic()
        self.window.add(uid, now)
        self.decisions.see(uid, now=now)

    def reconsider(self) -> None:
        """A pool or a node class changed: what no plan could place may have a place now."""
        self._stale = True

    def nominated(self) -> set[str]:
        """Nodes and machines that a recent plan promised to pods, or that pods are nominated to (BAT-11)."""
        now = self.clock.monotonic()
        self._nominated = {name: until for name, until in self._nominated.items() if until > now}
        return {*self._nominated, *self.handover.nodes()}

    def waiting(self) -> list[Pod]:
        """Pods that wait for capacity now, those whose nomination came to nothing included (POD-01)."""
        return waiting_pods(self.handover.settled(self.view.pods()))

    async def run(self, stop: asyncio.Event) -> None:
        """Plan whenever a window closes, until ``stop``."""
        await self._adopt(stop)
        checked = self.clock.monotonic()
        while not stop.is_set():
            now = self.last_progress = self.clock.monotonic()
            # Both may change while we run: they stand in a ConfigMap (OPS-04).
            self.window.idle_seconds = self.settings.batch_idle_duration
            self.window.max_seconds = self.settings.batch_max_duration
            recheck = LACKING_SECONDS if self._lacking else RECHECK_SECONDS
            if self._stale or now - checked > recheck:
                checked, self._stale = now, False
                await self.catalogues.get()  # decoded before the first batch waits for it
                self._recheck()
            self._look(now)
            closes = self.window.closes_at()
            if closes is not None and now >= closes:
                await self._round(stop)
            await pause(stop, TICK_SECONDS)

    async def _adopt(self, stop: asyncio.Event) -> None:
        """What the scheduler before us created right before its end, and the mirror may not show yet."""
        while not stop.is_set():
            self.last_progress = self.clock.monotonic()
            try:
                for stored in await self.machines.list_stored():
                    self.view.own.assume(stored)
                return
            except DovetailError as error:
                self.problem = f"machines cannot be listed: {error.message}"
                log.warning("not planning yet", reason=self.problem)
                await pause(stop, NOT_SYNCED_PAUSE_SECONDS)

    def _look(self, now: float) -> None:
        """What became of what was bought."""
        if self.futility.follows and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            machines = {machine.name: machine for machine in self.view.machines()}
            self.futility.look(machines, self.view.pods(), now=self.clock.now())

    def _recheck(self) -> None:
        """BAT-01: pods that wait, and machines on their way out whose pods will wait."""
        for pod in self.waiting():
            self.trigger(pod.uid)
        for machine in self.view.machines():
            if machine.terminating:
                self.trigger(machine.key)

    async def _round(self, stop: asyncio.Event) -> None:
        await self.view.reader.wait_until_verified(VERIFY_SECONDS)
        self.problem = self.not_synced()
        if self.problem:
            log.info("not planning yet", reason=self.problem)
            await pause(stop, NOT_SYNCED_PAUSE_SECONDS)
            return
        catalogue = await self.catalogues.get()
        if catalogue is None:
            self.problem = "no catalogue of instance types yet: is the launcher running?"
            await pause(stop, NOT_SYNCED_PAUSE_SECONDS)
            return
        unavailable = await self.unavailable.current()
        if not await self.view.reader.wait_until_verified(VERIFY_SECONDS):
            return  # the window is still open
        self._lacking = bool(catalogue.lacking)
        count, opened = self.window.close()
        log.info("batched pods", triggers=count, seconds=round(opened, 3))
        snapshot = self.view.snapshot(catalogue, unavailable)
        snapshot = replace(snapshot, pods=tuple(self.handover.settled(snapshot.pods)))
        moving = pods_to_move(snapshot, now=self.clock.now())
        waiting = waiting_pods(snapshot.pods)
        if not waiting and not moving:
            return
        logs.considering(waiting, moving)
        if self.settings.preference_policy != IGNORE:
            self.hints.tell(waiting, now=self.clock.monotonic())
        started = self.clock.monotonic()
        plan = await self._solve(snapshot, moving)
        seconds = self.clock.monotonic() - started
        self._time_decisions(plan, waiting)
        targets = (*plan.existing.values(), *(machine.pods for machine in plan.machines))
        self.pod_waits.place(placed_by(targets, waiting))
        machines = {machine.name: machine for machine in snapshot.machines}
        wanted, holds = self.futility.judge(
            plan, snapshot.pods, machines, now=self.clock.monotonic()
        )
        logs.decided(plan, wanted, snapshot, seconds=seconds)
        await self.reporter.held_back(holds, snapshot)
        created = await self._create(wanted, plan, snapshot)
        self._nominate(plan, created)
        self.handover.promise(plan, (machine.name for machine in created), snapshot.pods)
        self.rounds += 1
        self.last_plan = plan
        await self.reporter.tell(plan, snapshot, created)

    def not_synced(self, patience: float = 0.0) -> str:
        """OPS-13: why the picture of the cluster may not be acted on; empty when it may. A doubt that is younger than
        ``patience`` seconds is not told."""
        return not_synced(
            self.view.reader,
            now=self.clock.monotonic(),
            max_age=self.settings.mirror_max_age,
            patience=patience,
        )

    async def _solve(self, snapshot: Snapshot, moving: frozenset[str]) -> Plan:
        started = self.clock.monotonic()
        plan = await asyncio.to_thread(
            solve,
            snapshot,
            now=self.clock.now(),
            settings=self.solver_settings(),
            reschedule=moving,
            time_is_up=lambda: self.clock.monotonic() - started >= SOLVE_SECONDS,
        )
        seconds = self.clock.monotonic() - started
        self.metrics.scheduling_seconds.labels(PROVISIONER).observe(seconds)
        self.metrics.unschedulable_pods.labels(PROVISIONER).set(len(plan.unschedulable))
        self.metrics.ignored_pods.set(sum(map(self._is_ignored, snapshot.pods)))
        log.info(
            "computed plan",
            plan=plan.id,
            machines=len(plan.machines),
            placed=sum(len(m.pods) for m in plan.machines),
            existing=sum(len(pods) for pods in plan.existing.values()),
            unschedulable=len(plan.unschedulable),
            cost_micro_usd_per_hour=plan.cost_micro_usd_per_hour,
            lower_bound=plan.lower_bound_micro_usd_per_hour,
            seconds=round(seconds, 3),
        )
        return plan

    def _time_decisions(self, plan: Plan, waiting: list[Pod]) -> None:
        """POD-11. A pod that the round had no time for is not decided on."""
        uids = [pod.uid for pod in waiting]
        decided = [uid for uid in uids if plan.unschedulable.get(uid) != OUT_OF_TIME]
        now = self.clock.monotonic()
        for seconds in self.decisions.decide(decided, waiting=uids, now=now):
            self.metrics.decision_seconds.observe(seconds)

    def _is_ignored(self, pod: Pod) -> bool:
        """POD-03, POD-08."""
        devices = pod.claims_devices and self.settings.ignore_dra_requests
        return is_provisionable(pod) and (bool(pod.faults) or devices)

    def solver_settings(self) -> SolverSettings:
        """As the operator chose."""
        return SolverSettings(
            preference_policy=self.settings.preference_policy,
            min_values_policy=self.settings.min_values_policy,
            packing_policy=self.settings.packing_policy,
            effort=self.settings.packing_effort,
            most_node_cpu_milli=self.settings.packing_most_cpu * 1000 or None,
            ignore_device_claims=self.settings.ignore_dra_requests,
            default_spread=self.default_spread,
            counting=Counting(self.settings.limits_count_terminating),
        )

    async def _create(
        self, wanted: list[PlannedMachine], plan: Plan, snapshot: Snapshot
    ) -> list[PlannedMachine]:
        gate = asyncio.Semaphore(CREATIONS_AT_ONCE)
        pods = {pod.uid: pod for pod in snapshot.pods}
        waiting = await self._listed(len(wanted))

        async def create(planned: PlannedMachine) -> bool:
            async with gate:
                if not self.leadership.held:
                    return False  # another scheduler plans by now (F14)
                if not await self._is_needed(planned, pods, waiting):
                    return False
                return await self._create_one(planned, plan, snapshot)

        done = await asyncio.gather(*(create(planned) for planned in wanted))
        return [planned for planned, ok in zip(wanted, done, strict=True) if ok]

    async def _listed(self, machines: int) -> frozenset[str]:
        try:
            return await self.need.listed(machines)
        except DovetailError as error:
            log.info("pods are read one by one", error=error.message)
            return frozenset()

    async def _is_needed(
        self, planned: PlannedMachine, pods: Mapping[str, Pod], waiting: Set[str]
    ) -> bool:
        """BAT-05: no machine for pods that are gone or served, whatever the picture says."""
        try:
            needed = await self.need.is_proven(planned.pods, pods, waiting)
        except DovetailError as error:
            log.warning("cannot read pods", machine=planned.name, error=error.message)
            return False
        if not needed:
            log.info("nobody needs this machine any more", machine=planned.name)
        return needed

    async def _create_one(self, planned: PlannedMachine, plan: Plan, snapshot: Snapshot) -> bool:
        pool = next(pool for pool in snapshot.pools if pool.key == planned.pool_key)
        node_class = next(c for c in snapshot.node_classes if c.key == pool.node_class_key)
        over = exceeded(sum_of([pool.usage]), pool.limits)
        if over:  # BAT-08: limits are read again when a Machine is created
            log.warning("limit reached", pool=pool.name, resources=over)
            return False
        try:
            body = planned_object(
                planned, pool, node_class, plan=plan.id, epoch=self.leadership.epoch
            )
            stored = await self.machines.create(body)
        except AlreadyExists:
            # The same plan, made before a crash: its Machine is there, ring again.
            stored = None
        except DovetailError as error:
            log.warning("cannot create machine", machine=planned.name, error=error.message)
            return False
        if stored is not None:
            self.view.own.assume(stored)
            relaxed = planned.min_values_relaxed
            self.metrics.count_created(
                "provisioned", pool.name, pool.generation_api, relaxed=relaxed
            )
        await self._ring(f"{MACHINE_KINDS[pool.generation_api]}/{planned.name}", plan.id)
        return True

    async def _ring(self, machine: str, cause: str) -> None:
        # Not heard, the launcher finds the Machine on its list: this launch is late, not lost.
        message = LaunchMachine(machine=machine)
        await send(self.bus, streams.LAUNCHES, message, cause=cause, clock=self.clock)

    def _nominate(self, plan: Plan, created: list[PlannedMachine]) -> None:
        until = self.clock.monotonic() + max(
            2 * self.settings.batch_max_duration, self.settings.nomination_minimum
        )
        for name in [*plan.existing, *(machine.name for machine in created)]:
            self._nominated[name] = until
