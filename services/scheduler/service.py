"""Wires the scheduler. The parts get what they need here; none reaches another through a third.

Decisions are made from the mirror only, and none while the mirror is incomplete or old.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from services.scheduler.actions import MachineActions
from services.scheduler.approval.approvals import Approvals
from services.scheduler.approval.endpoint import ApprovalEndpoint
from services.scheduler.approval.reporting import ApprovalReporter
from services.scheduler.approval.webhook import STEP_SECONDS as WEBHOOK_SECONDS
from services.scheduler.approval.webhook import webhook_of
from services.scheduler.autoscaler_status.writer import STEP_SECONDS as STATUS_SECONDS
from services.scheduler.autoscaler_status.writer import AutoscalerStatus
from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.condition_writer import ConditionWriter
from services.scheduler.disruption.controller import Disruption, Provisioning
from services.scheduler.disruption.rate import CountedDisruptions
from services.scheduler.disruption.reporting import DisruptionReporter
from services.scheduler.handlers import RECONSIDERED, Handlers, TerminationTrigger
from services.scheduler.kept_room.buffers import CHECK_SECONDS as BUFFER_SECONDS
from services.scheduler.kept_room.buffers import Buffers
from services.scheduler.kept_room.requests import Requests
from services.scheduler.ledgers.endpoint import ledgers
from services.scheduler.provisioning import limit_waiters
from services.scheduler.provisioning.creation import Creation, MachineCreation, Need
from services.scheduler.provisioning.handover import Handover
from services.scheduler.provisioning.limit_waiters import LimitWaiters
from services.scheduler.provisioning.plan_trace import PlanTrace
from services.scheduler.provisioning.planner import Planner
from services.scheduler.provisioning.pod_hints import PodHints, hints_of
from services.scheduler.provisioning.pod_latency import DecisionLatency, PodLatency
from services.scheduler.provisioning.reporting import PlanReporter
from services.scheduler.provisioning.solver_settings import solver_of
from services.scheduler.shadow import NoCreation, NoEvents, followed, start_nothing
from services.scheduler.state.cluster import PATIENCE_SECONDS, ClusterState, View, catalogue_source
from services.scheduler.state.decisions import DecisionLog
from services.scheduler.state.kept_room import KeptRoom
from services.scheduler.state.plan_inputs import RecentInputs
from services.scheduler.state.recording import Recording, place_of, recorder_of
from services.scheduler.state.shortage_keeper import STEP_SECONDS as KEEPER_SECONDS
from services.scheduler.state.shortage_keeper import keeper_of
from services.scheduler.static_capacity.controller import StaticCapacity
from services.scheduler.static_capacity.kept_capacity import KeptCapacityFiller
from services.scheduler.status.access import offered, profile_admission
from services.scheduler.status.cluster_metrics import CHECK_SECONDS, ClusterMetrics
from services.scheduler.status.explain import Explainer
from services.scheduler.status.explain_record import RecordExplainer
from services.scheduler.status.explaining import explainer_of
from services.scheduler.status.policy_prices import PolicyPrices
from services.scheduler.status.simulate import Simulator
from shared.domain.records import MACHINES, NODES
from shared.errors import ConfigurationError
from shared.kube.machines import Machines
from shared.kube.token_access import TokenAccess
from shared.log import get_logger
from shared.redis import streams
from shared.redis.bus.follower import Follower
from shared.redis.mirror import Change, MirrorReader
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.redis.mirror.pools.approvals import ApprovalStore
from shared.redis.mirror.pools.disruption_rate import DisruptionRate
from shared.runtime.archive.recorder import STEP_SECONDS, DecisionRecorder
from shared.runtime.environment import Entry, Environment
from shared.runtime.leadership import Leadership
from shared.runtime.services import Loop, Question, Service, periodic
from shared.settings import SchedulerSettings

log = get_logger(__name__)

DISRUPTION_SECONDS = 1.0
MOST_REASONS = 2000
"""Pods without a place that ``/status`` names, the oldest first: its readers bound what they take."""
SchedulerEnvironment = Environment[SchedulerSettings]


@dataclass(frozen=True)
class Parts:
    """All that the loops, the handlers and the status port of one scheduler use."""

    cluster: ClusterState
    machines: Machines
    actions: MachineActions
    planner: Planner
    disruption: Disruption
    handover: Handover
    limit_waiters: LimitWaiters
    cluster_metrics: ClusterMetrics
    handlers: Handlers
    terminations: TerminationTrigger
    explainer: Explainer
    policy_prices: PolicyPrices
    pod_hints: PodHints
    recorder: DecisionRecorder | None

    def note(self, change: Change) -> None:
        if self.recorder is not None:
            self.recorder.note(change.kind, change.key, change.body, change.generation)
        if change.kind in RECONSIDERED:
            self.planner.reconsider()
        self.planner.pod_latency.note(change)
        if change.kind in (NODES, MACHINES):
            self.handover.hasten()
            self.terminations.note(change)


async def build(env: SchedulerEnvironment) -> Service:
    """Wire the scheduler. Raises ConfigurationError."""
    if env.settings.shadow:
        env = replace(env, recorder=NoEvents(env.kube, env.clock, env.random))
    leadership = _leadership(env)
    reader = MirrorReader(
        env.settings.redis_url,
        env.bus.prefix,
        clock=env.clock,
        random=env.random,
        on_change=lambda change: parts.note(change),
        key=env.settings.mirror_key,
        on_rejected=env.metrics.mirror_rejected.inc,
    )
    parts = compose(env, reader, leadership)
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    loops = [Loop("mirror", reader.run, progress=lambda: reader.last_progress)]
    if env.settings.shadow:
        loops += _shadow_loops(env, parts)
    else:
        env.metrics.add_page(parts.cluster_metrics.text)
        acting = [*_consumers(env, parts.handlers), *_loops(env, parts)]
        loops += [
            *leadership.loops(),
            # Also in a standby, which says whether it could lead.
            timed("metrics", CHECK_SECONDS, parts.cluster_metrics.refresh),
            *map(leadership.led, acting),
        ]
    recorder = parts.recorder
    if recorder is not None:
        loops.append(timed("records", STEP_SECONDS, recorder.step))
    return Service(
        "scheduler",
        loops,
        env.metrics,
        lambda: {**leadership.status(), **_status(parts)},
        lambda: parts.cluster.complaints(PATIENCE_SECONDS),
        questions=_questions(env, parts, leadership),
        admit_profile=profile_admission(env.settings.questions, env.kube, env.clock),
        close=None if recorder is None else recorder.close,
        notes=lambda: _notes(parts),
    )


def _questions(env: SchedulerEnvironment, parts: Parts, leadership: Leadership) -> list[Question]:
    access = TokenAccess(env.kube, env.clock)
    options = parts.policy_prices.options
    return [
        *offered(
            env.settings.questions,
            Simulator(parts.cluster.catalogues),
            parts.explainer,
            RecordExplainer(place_of(env.settings)),
            ApprovalEndpoint(parts.disruption.approvals, env.clock),
            access,
        ),
        *ledgers(env.settings, parts.cluster, options, env.clock, leadership, access),
    ]


def _notes(parts: Parts) -> list[str]:
    reporting = (parts.disruption.approvals.webhook, parts.recorder)
    return [one.problem for one in reporting if one is not None and one.problem]


def _leadership(env: SchedulerEnvironment) -> Leadership:
    """A shadow takes part in no election. Raises ConfigurationError for one that records nothing."""
    if not env.settings.shadow:
        return env.leadership("scheduler")
    if not env.settings.record_store:
        raise ConfigurationError("SHADOW needs RECORD_STORE: a shadow does nothing but record")
    return Leadership(None, env.clock)


def compose(env: SchedulerEnvironment, reader: MirrorReader, leadership: Leadership) -> Parts:
    """The parts of one scheduler, which remember nothing. Tests use them without the loops."""
    settings, clock, kube = env.settings, env.clock, env.kube
    cluster, machines = _cluster(env, reader), Machines(kube)
    view = cluster.view
    solver = solver_of(settings, clock)
    actions = MachineActions(env, view, machines, leadership)
    handover = Handover(settings, view, kube, clock)
    decisions, inputs = DecisionLog(clock), RecentInputs()
    recorder = recorder_of(env, reader)
    recording = Recording(recorder, view, clock, lambda: leadership.epoch, settings.shadow)
    planner = Planner(
        settings=settings,
        clock=clock,
        cluster=cluster,
        machines=machines,
        solver=solver,
        creation=_creation(env, actions),
        handover=handover,
        reporter=PlanReporter(env.recorder, {}, decisions, actions.obstacles),
        inputs=inputs,
        recording=recording,
        metrics=env.metrics,
        pod_latency=PodLatency(env.metrics, clock),
        decision_latency=DecisionLatency(),
        trace=PlanTrace(env.tracer),
        buffers=Buffers(kube, view, clock, env.metrics),
        requests=Requests(kube, view, clock),
    )
    provisioning = Provisioning(planner.nominated, planner.is_batching, solver.options, KeptRoom())
    disruption = _disruption(
        env, cluster, machines, actions, provisioning, decisions, inputs, recording
    )
    commands = disruption.commands
    return Parts(
        recorder=recording.recorder,
        cluster=cluster,
        machines=machines,
        actions=actions,
        planner=planner,
        disruption=disruption,
        handover=handover,
        limit_waiters=LimitWaiters(
            clock,
            cluster,
            solver,
            machines,
            kube,
            leadership,
            handover.settled,
            commands.replacements,
        ),
        cluster_metrics=ClusterMetrics(
            cluster,
            leadership,
            env.metrics,
            planner.pod_latency,
            planner.decision_latency.undecided,
            clock,
        ),
        handlers=Handlers(planner, reader),
        terminations=TerminationTrigger(planner.trigger),
        policy_prices=PolicyPrices(
            cluster, solver.options, planner.is_batching, env.metrics, clock
        ),
        pod_hints=hints_of(planner, env.recorder),
        explainer=explainer_of(
            settings, cluster, solver.options, disruption, decisions, inputs, leadership
        ),
    )


def _creation(env: SchedulerEnvironment, actions: MachineActions) -> Creation:
    return NoCreation() if env.settings.shadow else MachineCreation(actions, Need(env.kube))


def _cluster(env: SchedulerEnvironment, reader: MirrorReader) -> ClusterState:
    settings = env.settings
    cutoff, unneeded = settings.expendable_pods_priority_cutoff, settings.scale_down_unneeded_time
    view = View(reader, priority_cutoff=cutoff, unneeded_seconds=unneeded)
    catalogues = catalogue_source(env.bus, env.settings.feature_gates, view)
    unavailable = UnavailableOfferings(env.bus.redis, env.bus.prefix)
    shortages = ShortageHistory(env.bus.redis, env.bus.prefix, env.clock, env.settings)
    return ClusterState(env.settings, env.clock, view, catalogues, unavailable, shortages)


def _disruption(
    env: SchedulerEnvironment,
    cluster: ClusterState,
    machines: Machines,
    actions: MachineActions,
    provisioning: Provisioning,
    decisions: DecisionLog,
    inputs: RecentInputs,
    recording: Recording,
) -> Disruption:
    reporter = DisruptionReporter(env.recorder, env.metrics, decisions)
    rate = CountedDisruptions(DisruptionRate(env.bus.redis, env.bus.prefix), cluster.view)
    commands = Commands(
        settings=env.settings,
        clock=env.clock,
        view=cluster.view,
        kube=env.kube,
        machines=machines,
        actions=actions,
        reporter=reporter,
        rate=rate,
        inputs=inputs,
    )
    approvals = Approvals(
        env.settings,
        env.clock,
        cluster.view,
        ApprovalStore(env.bus.redis, env.bus.prefix),
        ApprovalReporter(env.recorder, env.metrics),
        commands.start,
        webhook_of(env.settings, env.clock),
    )
    return Disruption(
        settings=env.settings,
        clock=env.clock,
        cluster=cluster,
        provisioning=provisioning,
        actions=actions,
        commands=commands,
        conditions=ConditionWriter(
            cluster.view,
            machines,
            env.clock,
            reporter,
            provisioning.nominated,
            lambda: provisioning.kept_room.nodes,
        ),
        static_capacity=StaticCapacity(actions, env.clock, decisions),
        kept_capacity=KeptCapacityFiller(actions, env.clock, decisions, env.recorder, env.metrics),
        reporter=reporter,
        recording=recording,
        approvals=approvals,
        start=start_nothing if env.settings.shadow else approvals.start,
    )


def _status(parts: Parts) -> dict[str, object]:
    planner = parts.planner
    plan, reasons = planner.last_plan, planner.reporter.last_reasons
    return {
        "generation": parts.cluster.view.reader.generation,
        "rounds": planner.rounds,
        "problem": planner.problem,
        "lastPlan": plan.id if plan else None,
        "unschedulable": dict(islice(reasons.items(), MOST_REASONS)),
        "unschedulableCount": len(reasons),
        "nominated": sorted(planner.nominated()),
        "handover": parts.handover.status(),
        "disruption": parts.disruption.status(),
        "approvals": parts.disruption.approvals.status(),
        "decisions": planner.reporter.decisions.documents(),
        "policies": parts.policy_prices.status(),
        "shortages": parts.cluster.shortages.status(),
        "records": parts.recorder.status() if parts.recorder else {"kept": False},
    }


def _consumers(env: SchedulerEnvironment, handlers: Handlers) -> list[Loop]:
    handled = {
        streams.PODS: handlers.pods,
        streams.MACHINES: handlers.machines,
        streams.INTERRUPTIONS: handlers.interruptions,
    }
    return [env.consumer_loop(stream, "scheduler", act) for stream, act in handled.items()]


def _loops(env: SchedulerEnvironment, parts: Parts) -> list[Loop]:
    """What only the leader does, beside reading its streams."""
    planner, handover, not_synced = parts.planner, parts.handover, parts.cluster.not_synced
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    prices, hints = env.settings.policy_price_period, env.settings.pod_hint_period
    status = AutoscalerStatus.of(env, parts.cluster, parts.disruption.findings)
    webhook = parts.disruption.approvals.webhook
    keeper = keeper_of(env, parts.cluster.shortages)
    return [
        *([timed("policy prices", prices, parts.policy_prices.step)] if prices else ()),
        *([timed("pod hints", hints, parts.pod_hints.step)] if hints else ()),
        Loop("planning", planner.run, progress=lambda: planner.last_progress),
        Loop(
            "handover",
            lambda stop: handover.run(stop, not_synced),
            progress=lambda: handover.last_progress,
        ),
        timed("buffers", BUFFER_SECONDS, planner.buffers.step),
        timed("provisioning requests", BUFFER_SECONDS, planner.requests.step),
        *([timed("status", STATUS_SECONDS, status.step)] if status.place else ()),
        timed("limits", limit_waiters.CHECK_SECONDS, parts.limit_waiters.step),
        timed("disruption", DISRUPTION_SECONDS, parts.disruption.step),
        *([timed("shortages", KEEPER_SECONDS, keeper.step)] if keeper else ()),
        *([timed("approval webhook", WEBHOOK_SECONDS, webhook.step)] if webhook else ()),
    ]


def _shadow_loops(env: SchedulerEnvironment, parts: Parts) -> list[Loop]:
    """What a shadow does: look on, and decide."""
    planner = parts.planner
    follower = Follower(env.settings.redis_url, env.bus.prefix, followed(parts.handlers), env.clock)
    seconds = max(DISRUPTION_SECONDS, env.settings.disruption_period)
    return [
        Loop("streams", follower.run, progress=lambda: follower.last_progress),
        Loop("planning", planner.run, progress=lambda: planner.last_progress),
        periodic(
            "disruption", seconds, parts.disruption.decide, clock=env.clock, jitter=env.random
        ),
    ]


ENTRY = Entry("scheduler", SchedulerSettings, build)
