"""Wires the watcher: informers, mirror, status, metrics. Of several watchers one writes, others stand by (OPS-11).

It is ready when every kind was listed and is watched, the mirror is written, and the last comparison with a fresh list
found no difference.
"""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf

from services.watcher.conversion import Kind
from services.watcher.metrics.conditions import Conditions
from services.watcher.metrics.pods import PodGauges
from services.watcher.metrics.redis_memory import measure_memory
from services.watcher.mirror.comparison import Comparison, Watch, positions, problem_of
from services.watcher.mirror.intake import Intake
from services.watcher.mirror.journal import Journal
from services.watcher.object_faults import ObjectFaults
from services.watcher.optional_kinds import absences, kinds, switch_of
from services.watcher.status.controller import Statuses
from services.watcher.status.inline_templates import InlineTemplates
from services.watcher.status.machine_notes import JoinedNodes, PodEvents
from shared.concurrency.waiting import run_until
from shared.kube.informer import Event, Informer
from shared.kube.machines import Machines
from shared.redis.mirror import MirrorWriter
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.redis.streams import GROUPS
from shared.runtime.environment import Entry, Environment
from shared.runtime.leadership import Leadership
from shared.runtime.services import Loop, Service, periodic
from shared.settings import WatcherSettings

TICK_SECONDS = 0.25
"""How soon readers learn that a watch ceased to be sound."""
STATUS_SECONDS = 2.0
"""NP-24 allows five."""
TRIM_SECONDS = 30.0
MEMORY_SECONDS = 10.0


async def build(env: Environment[WatcherSettings]) -> Service:
    leadership = env.leadership("watcher")
    writer = MirrorWriter(
        env.bus.redis, env.bus.prefix, epoch=env.instance, key=env.settings.mirror_key
    )
    journal = Journal(writer, env.bus, env.clock, env.tracer)
    statuses = _statuses(env, journal)
    pod_events, joined_nodes = PodEvents(env.clock), JoinedNodes(env.clock)
    intake = _intake(env, journal, statuses, pod_events, joined_nodes, leadership)
    watched = kinds(env.settings.feature_gates, devices=not env.settings.ignore_dra_requests)
    watches = [Watch(kind, _informer(kind, env, intake)) for kind in watched]
    informers = {kind.watch: informer for kind, informer in watches}
    comparison = Comparison(env.kube, watches, journal, env.metrics, env.clock, env.random)
    journal.positions = lambda: positions(informers, comparison.unhealed, env.clock.monotonic())

    async def write_statuses() -> None:
        if journal.begun:  # before that a class that is not listed yet would look missing
            await statuses.refresh()
            if pod_events.latest:
                await pod_events.write(env.kube, journal.machines())
            await joined_nodes.write(journal, statuses.machines)

    async def write(stop: asyncio.Event) -> None:
        for informer in informers.values():
            await run_until(stop, informer.synced.wait())
        # A term may have been cut off in the middle of a batch: begin the mirror anew.
        journal.begun = False
        await journal.run(stop)

    def missing() -> list[str]:
        now = env.clock.monotonic()
        unsound = [text for name, i in informers.items() if (text := problem_of(name, i, now))]
        wrong = [*unsound, *comparison.problems()]
        if wrong or journal.begun or not leadership.held:
            return wrong
        return ["the mirror is not written yet"]

    def status() -> dict[str, object]:
        return {
            **leadership.status(),
            "generation": journal.generation,
            "backlog": journal.backlog,
            "unannounced": journal.unannounced,
            "objects": {name: len(bodies) for name, bodies in journal.records.items()},
            "relists": {name: informer.restarts for name, informer in informers.items()},
        }

    timed = partial(periodic, clock=env.clock, jitter=env.random)
    acting = [
        # Before it has begun, ``missing`` says so.
        Loop(
            "mirror",
            write,
            progress=lambda: journal.last_progress if journal.begun else None,
        ),
        timed("heartbeat", TICK_SECONDS, journal.tick),
        timed("statuses", STATUS_SECONDS, write_statuses),
        timed("trim", TRIM_SECONDS, lambda: _trim(env)),
    ]
    loops = [
        # No time limit here: ``problem_of`` says why a watch makes no progress.
        *(Loop(f"watch {name}", i.run, late_seconds=inf) for name, i in informers.items()),
        comparison.loop(env.settings.watch_check_period),
        # Also in a standby: a fact about Redis, not about the cluster.
        timed("redis memory", MEMORY_SECONDS, lambda: measure_memory(env.bus, env.metrics)),
        *leadership.loops(),
        *map(leadership.led, acting),
    ]
    notes = partial(absences, informers.values())
    return Service("watcher", loops, env.metrics, status, missing, notes=notes)


def _statuses(env: Environment[WatcherSettings], journal: Journal) -> Statuses:
    return Statuses(
        kube=env.kube,
        machines=Machines(env.kube),
        recorder=env.recorder,
        clock=env.clock,
        journal=journal,
        inline=InlineTemplates(env.kube, env.recorder, env.clock),
        registrations=RegistrationOutcomes(env.bus.redis, env.bus.prefix),
        faults=ObjectFaults(env.metrics),
    )


def _intake(
    env: Environment[WatcherSettings],
    journal: Journal,
    statuses: Statuses,
    pod_events: PodEvents,
    joined_nodes: JoinedNodes,
    leadership: Leadership,
) -> Intake:
    """All parts that follow objects, behind one ``take``."""
    conditions = Conditions(env.metrics, env.clock, lambda: leadership.held)
    pods = PodGauges(env.metrics, env.clock, lambda: leadership.held)
    env.metrics.add_page(conditions.text)
    if not env.settings.disable_cluster_state_observability:
        env.metrics.add_page(pods.text)
    return Intake(journal, statuses, conditions, pod_events, joined_nodes, statuses.faults, pods)


def _informer(kind: Kind, env: Environment[WatcherSettings], intake: Intake) -> Informer:
    async def on_event(event: Event) -> None:
        intake.take(kind, event, first=not informer.synced.is_set())

    informer = Informer(
        env.kube,
        kind.resource,
        on_event=on_event,
        clock=env.clock,
        random=env.random,
        optional=bool(switch_of(kind.resource)),
    )
    return informer


async def _trim(env: Environment[WatcherSettings]) -> None:
    """Drop what every group has read (F11)."""
    for stream in GROUPS:
        await env.bus.trim(stream)


ENTRY = Entry("watcher", WatcherSettings, build)
