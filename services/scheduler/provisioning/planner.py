"""Provisioning rounds: wait until the window closes, take a snapshot, compute a plan, create its Machines.

Rounds never overlap (BAT-07). Machines are written to the API server before any message is sent: a crash after the
first one loses nothing, because the launcher lists Machines without an instance, and the next plan counts them. Plans
are computed in a thread, as the operator's settings say, within a bound of time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.scheduler.kept_room.buffers import Buffers
from services.scheduler.kept_room.requests import Requests
from services.scheduler.provisioning import logs
from services.scheduler.provisioning.backoff import CHECK_SECONDS, ProvisioningBackoff
from services.scheduler.provisioning.batching import Window
from services.scheduler.provisioning.creation import Creation
from services.scheduler.provisioning.gang_leftovers import GangLeftovers
from services.scheduler.provisioning.handover import Handover
from services.scheduler.provisioning.logs import PreferenceLog
from services.scheduler.provisioning.plan_trace import PlanTrace
from services.scheduler.provisioning.pod_latency import DecisionLatency, PodLatency, placed_by
from services.scheduler.provisioning.reporting import PlanReporter
from services.scheduler.state.cluster import ClusterState, pods_to_move, waiting_pods
from services.scheduler.state.plan_inputs import PlanInputs, RecentInputs
from services.scheduler.state.recording import Recording
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause, pause_unless, woken_by
from shared.domain.pools.node_price import MICRO_USD
from shared.domain.pools.usage import Counting
from shared.domain.records import CAPACITY_BUFFERS, PROVISIONING_REQUESTS
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import any_virtual, without_node
from shared.domain.workloads.pods import Pod, SpreadConstraint, is_provisionable
from shared.errors import DovetailError
from shared.kube.machines import Machines
from shared.log import get_logger
from shared.metrics import Metrics
from shared.metrics.scheduling import PROVISIONER
from shared.redis.mirror.pending_writes import PendingWrites
from shared.runtime.archive.writing import Taken
from shared.settings import SchedulerSettings
from shared.simulation.decisions.prepared import to_plan
from shared.simulation.decisions.records import PlanQuestion
from shared.solver.placement.relaxation import IGNORE
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.pools.expander import Priorities
from shared.solver.reasons import OUT_OF_TIME
from shared.solver.solve import SolverSettings, solve_in_order
from shared.solver.virtual_pods import keeps_room, without_virtual_pods

log = get_logger(__name__)

SOLVE_SECONDS = 60.0
"""After this a plan holds what is placed by then (BAT-07)."""
LONGEST_IDLE_SECONDS = 1.0
"""How often settings, rechecks and the back-off are looked after while no window is open."""
RECHECK_SECONDS = 10.0
"""Pods that still wait trigger a new round this often (BAT-01)."""
LACKING_SECONDS = 1.0
"""The same while the catalogue lacks what some node class offers: the launcher adds it within seconds."""
NOT_SYNCED_PAUSE_SECONDS = 1.0
NOTHING = Plan("", 0, (), {}, {})
VERIFY_SECONDS = 3.0
"""Longer than between two heartbeats of the watcher: by then a picture is verified or wrong."""


@dataclass(frozen=True)
class Solver:
    """``default_spread`` is for pods without constraints of their own (SCH-85)."""

    settings: SchedulerSettings
    clock: Clock
    default_spread: tuple[SpreadConstraint, ...] = ()
    priorities: Priorities = ()
    """Of pools, for the expander of this name."""

    async def plan(self, snapshot: Snapshot, question: PlanQuestion) -> Plan:
        """Place the pods that wait and those that the question names."""
        started = self.clock.monotonic()
        # In a thread: a large plan takes seconds, and the loop must answer probes and renew the Lease meanwhile.
        return await asyncio.to_thread(
            solve_in_order,
            snapshot,
            now=question.now,
            settings=question.settings,
            reschedule=frozenset(question.moving),
            time_is_up=lambda: self.clock.monotonic() - started >= SOLVE_SECONDS,
        )

    def question(self, moving: Collection[str]) -> PlanQuestion:
        """What a plan is made with now. ``moving``: UIDs of bound pods that need another node."""
        return PlanQuestion(self.clock.now(), self.options(), tuple(sorted(moving)))

    async def asked(self, snapshot: Snapshot, question: PlanQuestion) -> Snapshot:
        """The snapshot with closed pools, in which pods wait too for which room is kept (GAT-02)."""
        if not keeps_room(snapshot):
            return to_plan(snapshot, question)
        return await asyncio.to_thread(to_plan, snapshot, question)

    def options(self) -> SolverSettings:
        """As the settings are now: they may change while the process runs (OPS-04)."""
        dollars = self.settings.node_price
        node_price = None if dollars is None else round(dollars * MICRO_USD)
        return SolverSettings(
            preference_policy=self.settings.preference_policy,
            min_values_policy=self.settings.min_values_policy,
            packing_policy=self.settings.packing_policy,
            node_price_micro_usd=node_price,
            effort=self.settings.packing_effort,
            most_node_cpu_milli=self.settings.packing_most_cpu * 1000 or None,
            ignore_device_claims=self.settings.ignore_dra_requests,
            default_spread=self.default_spread,
            priority_cutoff=self.settings.expendable_pods_priority_cutoff,
            counting=Counting(self.settings.limits_count_terminating),
            expander=self.settings.expander,
            pool_priorities=self.priorities,
        )


@dataclass
class Planner:
    """Owns the batching window and the rounds."""

    settings: SchedulerSettings
    clock: Clock
    cluster: ClusterState
    machines: Machines
    solver: Solver
    creation: Creation
    handover: Handover
    reporter: PlanReporter
    inputs: RecentInputs
    recording: Recording
    metrics: Metrics
    pod_latency: PodLatency
    decision_latency: DecisionLatency
    trace: PlanTrace
    buffers: Buffers
    requests: Requests
    window: Window = field(init=False)
    backoff: ProvisioningBackoff = field(default_factory=ProvisioningBackoff)
    preferences: PreferenceLog = field(default_factory=PreferenceLog)
    leftovers: GangLeftovers = field(default_factory=GangLeftovers)
    rounds: int = 0
    last_progress: float = 0.0
    """Monotonic time of the last check of the window."""
    last_plan: Plan | None = None
    problem: str = ""
    """Why no round is made now; empty for no reason."""
    _backoff_checked_at: float = float("-inf")
    _must_recheck: bool = False
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a window opens or a recheck is wanted: ``run`` sleeps until the next time it knows of."""
    _lacking: bool = False
    """Did the last round's catalogue lack anything?"""
    _nominated: PendingWrites[str, None] = field(default_factory=PendingWrites)
    """Names of nodes and machines to which a recent plan gave pods."""
    _room_checked: int = -1
    """The generation of the mirror at which there was room for every virtual pod."""

    def __post_init__(self) -> None:
        self.window = Window(self.settings.batch_idle_duration, self.settings.batch_max_duration)

    def trigger(self, uid: str) -> None:
        """A pod, a node or a machine (by UID or name) needs a plan."""
        now = self.clock.monotonic()
        if self.window.opened_at is None:
            self._woken.set()
        self.window.add(uid, now)
        self.decision_latency.see(uid, now=now)

    def trigger_waiting(self) -> None:
        """All pods that wait need a plan."""
        for pod in self.waiting():
            self.trigger(pod.uid)

    def trigger_unbound(self) -> None:
        """Pods that are promised a machine too: the mirror may not show yet that theirs is the one that is gone."""
        for pod in waiting_pods(self.cluster.view.pods()):
            self.trigger(pod.uid)
        self.trigger_waiting()

    def reconsider(self) -> None:
        """A pool or a node class changed: what no plan could place may have a place now."""
        self._must_recheck = True
        self._woken.set()

    def is_batching(self) -> bool:
        return self.window.opened_at is not None

    def nominated(self) -> set[str]:
        """Nodes and machines to which a recent plan gave pods, or which pods are nominated to (BAT-11)."""
        recent = self._nominated.unshown(lambda *_: False, now=self.clock.monotonic())
        return {*recent, *self.handover.nodes()}

    def waiting(self) -> list[Pod]:
        """Pods that wait for capacity now, also those whose nomination came to nothing (POD-01)."""
        return waiting_pods(self.handover.settled(self.cluster.view.pods()))

    async def run(self, stop: asyncio.Event) -> None:
        """Plan whenever a window closes, until ``stop``."""
        await self._adopt(stop)
        async with woken_by(stop, self._woken):
            await self._plan_until(stop)

    async def _plan_until(self, stop: asyncio.Event) -> None:
        checked = self.clock.monotonic()
        while not stop.is_set():
            now = self.last_progress = self.clock.monotonic()
            # Both may change while we run: they are in a ConfigMap (OPS-04).
            self.window.idle_seconds = self.settings.batch_idle_duration
            self.window.max_seconds = self.settings.batch_max_duration
            recheck = LACKING_SECONDS if self._lacking else RECHECK_SECONDS
            if self._must_recheck or now - checked > recheck:
                checked, self._must_recheck = now, False
                # Before the first batch waits for it: a new catalogue takes a while to decode.
                await self.cluster.catalogues.get()
                self._recheck()
            self._check_backoff(now)
            closes = self.window.closes_at()
            if closes is not None and now >= closes:
                await self._round(stop)
            await pause_unless(self._woken, self._idle_seconds())

    def _idle_seconds(self) -> float:
        """Until the open window closes; a trigger may move that, so it is computed again then."""
        closes = self.window.closes_at()
        if closes is None:
            return LONGEST_IDLE_SECONDS
        return min(LONGEST_IDLE_SECONDS, max(0.0, closes - self.clock.monotonic()))

    async def _adopt(self, stop: asyncio.Event) -> None:
        """Count what the scheduler before us created right before its end: the mirror may not show it yet."""
        while not stop.is_set():
            self.last_progress = self.clock.monotonic()
            try:
                for stored in await self.machines.list_stored():
                    self.cluster.view.assume(stored)
                return
            except DovetailError as error:
                self.problem = f"machines cannot be listed: {error.message}"
                log.warning("not planning yet", reason=self.problem)
                await pause(stop, NOT_SYNCED_PAUSE_SECONDS)

    def _check_backoff(self, now: float) -> None:
        """Did pods run on the machines that were created for them?"""
        if self.backoff.has_attempts and now - self._backoff_checked_at >= CHECK_SECONDS:
            self._backoff_checked_at = now
            view = self.cluster.view
            machines = {machine.name: machine for machine in view.machines()}
            self.backoff.check(machines, view.pods(), now=self.clock.now())

    def _recheck(self) -> None:
        """Trigger pods that wait, and terminating machines, whose pods will wait (BAT-01), and buffers, whose room may
        have been taken (GAT-02)."""
        self.trigger_waiting()
        view = self.cluster.view
        asked = any(view.records(kind) for kind in (CAPACITY_BUFFERS, PROVISIONING_REQUESTS))
        if asked and view.reader.generation != self._room_checked:
            self.trigger(CAPACITY_BUFFERS)
        for machine in self.cluster.view.machines():
            if machine.terminating:
                self.trigger(machine.key)

    async def _round(self, stop: asyncio.Event) -> None:
        found = await self._snapshot(stop)
        if found is None:
            return
        snapshot, taken = found
        moving = pods_to_move(snapshot, now=self.clock.now())
        waiting = waiting_pods(without_node(snapshot.pods))
        question = self.solver.question(moving)
        snapshot = await self.solver.asked(snapshot, question)
        kept = self.requests.live() or any_virtual(snapshot.pods)
        if not (waiting or moving or kept):
            self.buffers.noted(NOTHING, snapshot)
            return
        logs.considering(waiting, moving)
        if self.settings.preference_policy != IGNORE:
            self.preferences.note(waiting, now=self.clock.monotonic())
        started = self.clock.now()
        plan, seconds = await self._plan(snapshot, question)
        await self._note_room(plan, snapshot)
        plan = without_virtual_pods(plan, snapshot)
        self.metrics.unschedulable_pods.labels(PROVISIONER).set(len(plan.unschedulable))
        self._measure_latency(plan, waiting)
        desired = await self._held_back(plan, snapshot, seconds)
        with self.trace.plan(plan, desired, waiting, start=started):
            created = await self.creation.create(desired, plan, snapshot)
        await self.creation.give_back(self.leftovers.of(plan, snapshot, now=self.clock.monotonic()))
        self._nominate(plan, created)
        real = [pod for pod in without_node(snapshot.pods) if not pod.virtual]
        self.handover.promise(plan, (machine.name for machine in created), real)
        self.rounds += 1
        self.last_plan = plan
        if created:
            self.inputs.keep(plan.id, PlanInputs(snapshot, moving, question.settings, question.now))
        self.recording.plan(taken, plan, question, desired, created)
        await self.reporter.report(plan, snapshot, created)

    async def _snapshot(self, stop: asyncio.Event) -> tuple[Snapshot, Taken | None] | None:
        """What this round plans from and how it is recorded, and the window is closed; None, and it stays open, while
        nothing may be planned."""
        view = self.cluster.view
        await view.reader.wait_until_verified(VERIFY_SECONDS)
        self.problem = self.cluster.not_synced()
        if self.problem:
            log.info("not planning yet", reason=self.problem)
            await pause(stop, NOT_SYNCED_PAUSE_SECONDS)
            return None
        catalogue = await self.cluster.catalogues.get()
        if catalogue is None:
            self.problem = "no catalogue of instance types yet: is the launcher running?"
            await pause(stop, NOT_SYNCED_PAUSE_SECONDS)
            return None
        unavailable = await self.cluster.unavailable.current()
        shortages = await self.cluster.shortages.current()
        # Again: it may have become doubtful while we waited for Redis. From here to the snapshot nothing waits.
        if not await view.reader.wait_until_verified(VERIFY_SECONDS):
            return None
        self._lacking = bool(catalogue.lacking)
        count, opened = self.window.close()
        log.info("batched pods", triggers=count, seconds=round(opened, 3))
        shown = view.snapshot(catalogue, unavailable, shortages)
        snapshot = replace(shown, pods=tuple(self.handover.settled(shown.pods)))
        return snapshot, self.recording.taken(shown, snapshot)

    async def _held_back(
        self, plan: Plan, snapshot: Snapshot, seconds: float
    ) -> list[PlannedMachine]:
        """The plan's machines without those that the back-off holds back. ``seconds``: how long planning took."""
        machines = {machine.name: machine for machine in snapshot.machines}
        desired, holds = self.backoff.judge(
            plan, snapshot.pods, machines, now=self.clock.monotonic()
        )
        logs.decided(plan, desired, snapshot, seconds=seconds)
        await self.reporter.held_back(holds, snapshot)
        return desired

    async def _plan(self, snapshot: Snapshot, question: PlanQuestion) -> tuple[Plan, float]:
        """The plan, and how long it took in seconds."""
        started = self.clock.monotonic()
        plan = await self.solver.plan(snapshot, question)
        seconds = self.clock.monotonic() - started
        self.metrics.scheduling_seconds.labels(PROVISIONER).observe(seconds)
        self.metrics.ignored_pods.set(sum(map(self._is_ignored, without_node(snapshot.pods))))
        logs.computed(plan, seconds=seconds)
        return plan, seconds

    async def _note_room(self, plan: Plan, snapshot: Snapshot) -> None:
        self.buffers.noted(plan, snapshot)
        await self.requests.noted(plan, snapshot, self.solver.options())
        waits = self.requests.open() or self.requests.has_lost_room
        settled = self.buffers.all_fit and not waits
        self._room_checked = snapshot.generation if settled else -1

    def _measure_latency(self, plan: Plan, waiting: list[Pod]) -> None:
        """POD-11: a pod that the round had no time for is not decided on."""
        uids = [pod.uid for pod in waiting]
        decided = [uid for uid in uids if plan.unschedulable.get(uid) != OUT_OF_TIME]
        now = self.clock.monotonic()
        for seconds in self.decision_latency.decide(decided, waiting=uids, now=now):
            self.metrics.decision_seconds.observe(seconds)
        targets = (*plan.existing.values(), *(machine.pods for machine in plan.machines))
        self.pod_latency.place(placed_by(targets, waiting))

    def _is_ignored(self, pod: Pod) -> bool:
        """Whether no plan places it, whatever there is (POD-03, POD-08)."""
        devices = pod.claims_devices and self.settings.ignore_dra_requests
        return is_provisionable(pod) and (bool(pod.faults) or devices)

    def _nominate(self, plan: Plan, created: list[PlannedMachine]) -> None:
        now = self.clock.monotonic()
        # Two windows: the pods bind within the next, or a plan is made for them again after it.
        seconds = max(2 * self.settings.batch_max_duration, self.settings.nomination_minimum)
        for name in [*plan.existing, *(machine.name for machine in created)]:
            self._nominated.note(name, None, now=now, most_seconds=seconds)
