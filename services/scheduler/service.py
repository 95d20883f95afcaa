"""The scheduler: the only one that decides. News -> plans, Machines, and the removal of empty machines.

It reads the cluster from the mirror only, and refuses to decide while the mirror is incomplete or old.
"""

from __future__ import annotations

from pathlib import Path

from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.controller import Disruption
from services.scheduler.disruption.reporting import Teller
from services.scheduler.evidence.need import Need
from services.scheduler.evidence.sync import PATIENCE_SECONDS
from services.scheduler.handlers import Departures, Handlers
from services.scheduler.handover import Handover
from services.scheduler.provisioning import limit_waiters
from services.scheduler.provisioning.limit_waiters import LimitWaiters
from services.scheduler.provisioning.planner import Planner
from services.scheduler.provisioning.reporting import Reporter
from services.scheduler.state.catalogues import catalogue_source
from services.scheduler.state.view import View
from services.scheduler.status.access import offered
from services.scheduler.status.cluster_metrics import LOOK_SECONDS, ClusterMetrics
from services.scheduler.status.explain import Explainer
from services.scheduler.status.simulate import Simulator
from shared import streams
from shared.api.scheduler_config import default_spread
from shared.domain.feature_gates import FeatureGates, without_effect
from shared.domain.pods import SpreadConstraint
from shared.domain.records import (
    CLAIMS,
    MACHINES,
    NAMESPACES,
    NODE_CLASSES,
    NODE_OVERLAYS,
    NODE_POOLS,
    NODES,
    STORAGE_CLASSES,
    VOLUMES,
)
from shared.environment import Entry, Environment
from shared.errors import ConfigurationError, InvalidObject
from shared.kube.machines import Machines
from shared.kube.token_access import TokenAccess
from shared.leadership import Leadership
from shared.log import get_logger
from shared.mirror import Change, MirrorReader
from shared.mirror.disruption_rate import DisruptionRate
from shared.mirror.offerings import CatalogueSource, UnavailableOfferings
from shared.runtime import Loop, Service, periodic
from shared.settings import SchedulerSettings

log = get_logger(__name__)

DISRUPTION_SECONDS = 1.0
RECONSIDERED = (
    NODE_POOLS, NODE_CLASSES, NODE_OVERLAYS, CLAIMS, VOLUMES, STORAGE_CLASSES, NAMESPACES,
)  # fmt: skip
"""Kinds whose change may give a place to pods that had none."""


async def build(env: Environment[SchedulerSettings]) -> Service:
    """Wire the scheduler."""
    leadership = env.leadership("scheduler")

    def on_change(change: Change) -> None:
        if change.kind in RECONSIDERED:
            planner.reconsider()
        planner.pod_waits.note(change)
        if change.kind in (NODES, MACHINES):
            handover.look()
            departures.note(change)

    reader = MirrorReader(
        env.settings.redis_url,
        env.bus.prefix,
        clock=env.clock,
        random=env.random,
        on_change=on_change,
        key=env.settings.mirror_key,
        on_rejected=env.metrics.mirror_rejected.inc,
    )
    gates = env.settings.feature_gates
    _warn_of(gates)
    view, machines = View(reader), Machines(env.kube)
    catalogues = catalogue_source(env.bus, gates, view)
    reporter = Reporter(env.recorder, {})
    handover = Handover(env.settings, view, env.kube, env.clock)
    planner = _planner(env, view, machines, catalogues, reporter, handover, leadership)
    departures = Departures(planner)
    commands = _commands(env, view, planner, machines)
    disruption = Disruption(env.settings, view, planner, commands, env.clock)

    def status() -> dict[str, object]:
        plan = planner.last_plan
        return {
            **leadership.status(),
            "generation": reader.generation,
            "rounds": planner.rounds,
            "problem": planner.problem,
            "lastPlan": plan.id if plan else None,
            "unschedulable": reporter.last_reasons,
            "nominated": sorted(planner.nominated()),
            "handover": handover.status(),
            "disruption": disruption.status(),
        }

    acting = [
        *_consumers(env, Handlers(planner, view)),
        *_loops(env, planner, handover, disruption, LimitWaiters(planner, commands)),
    ]
    loops = [
        Loop("mirror", reader.run, progress=lambda: reader.last_progress),
        *leadership.loops(),
        _metrics_loop(env, planner),
        *map(leadership.led, acting),
    ]
    return Service(
        "scheduler",
        loops,
        env.metrics,
        status,
        lambda: list(filter(None, [planner.not_synced(PATIENCE_SECONDS)])),
        questions=offered(
            env.settings.questions,
            Simulator(catalogues),
            Explainer(disruption),
            TokenAccess(env.kube, env.clock),
        ),
    )


def _consumers(env: Environment[SchedulerSettings], handlers: Handlers) -> list[Loop]:
    handled = {
        streams.PODS: handlers.pods,
        streams.MACHINES: handlers.machines,
        streams.INTERRUPTIONS: handlers.interruptions,
    }
    return [env.consumer_loop(stream, "scheduler", act) for stream, act in handled.items()]


def _warn_of(gates: FeatureGates) -> None:
    for gate in without_effect(gates):
        log.warning("a feature gate has no effect", gate=gate)


def _loops(
    env: Environment[SchedulerSettings],
    planner: Planner,
    handover: Handover,
    disruption: Disruption,
    waiters: LimitWaiters,
) -> list[Loop]:
    """What only the leader does, beside reading its streams."""
    return [
        Loop("planning", planner.run, progress=lambda: planner.last_progress),
        Loop(
            "handover",
            lambda stop: handover.run(stop, planner.not_synced),
            progress=lambda: handover.last_progress,
        ),
        periodic(
            "limits", limit_waiters.LOOK_SECONDS, waiters.step, clock=env.clock, jitter=env.random
        ),
        periodic(
            "disruption", DISRUPTION_SECONDS, disruption.step, clock=env.clock, jitter=env.random
        ),
    ]


def _metrics_loop(env: Environment[SchedulerSettings], planner: Planner) -> Loop:
    """Also in a standby, which tells whether it could lead."""
    cluster = ClusterMetrics(planner, env.clock)
    env.metrics.add_page(cluster.text)
    return periodic("metrics", LOOK_SECONDS, cluster.look, clock=env.clock, jitter=env.random)


def _planner(
    env: Environment[SchedulerSettings],
    view: View,
    machines: Machines,
    catalogues: CatalogueSource,
    reporter: Reporter,
    handover: Handover,
    leadership: Leadership,
) -> Planner:
    return Planner(
        settings=env.settings,
        view=view,
        machines=machines,
        bus=env.bus,
        clock=env.clock,
        metrics=env.metrics,
        catalogues=catalogues,
        unavailable=UnavailableOfferings(env.bus.redis, env.bus.prefix, env.clock),
        reporter=reporter,
        handover=handover,
        leadership=leadership,
        need=Need(env.kube),
        default_spread=_default_spread(env.settings.scheduler_config),
    )


def _commands(
    env: Environment[SchedulerSettings], view: View, planner: Planner, machines: Machines
) -> Commands:
    return Commands(
        view=view,
        planner=planner,
        kube=env.kube,
        machines=machines,
        bus=env.bus,
        clock=env.clock,
        metrics=env.metrics,
        teller=Teller(env.recorder, env.metrics),
        rate=DisruptionRate(env.bus.redis, env.bus.prefix, env.clock),
    )


def _default_spread(setting: str) -> tuple[SpreadConstraint, ...]:
    """SCH-85. Raises ConfigurationError that names the field."""
    try:
        is_path = setting.startswith("/")
        return default_spread(Path(setting).read_text() if is_path else setting)
    except OSError as error:
        raise ConfigurationError(f"SCHEDULER_CONFIG: cannot read {setting}: {error}") from error
    except (InvalidObject, UnicodeDecodeError) as error:
        raise ConfigurationError(f"wrong settings: SCHEDULER_CONFIG: {error}") from error


ENTRY = Entry("scheduler", SchedulerSettings, build)
