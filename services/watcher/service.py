"""The watcher: the only one that watches. Kubernetes -> mirror and news.

It keeps a mirror of the cluster in Redis and tells the others by stream which object to look at. It decides nothing
and destroys nothing. It is ready when every kind was listed once and the mirror is written. Of several watchers one
writes; the others watch and stand by (OPS-11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from services.watcher.conditions import Conditions
from services.watcher.inline_templates import InlineTemplates
from services.watcher.joins import Joins
from services.watcher.journal import Journal
from services.watcher.pod_events import PodEvents
from services.watcher.records import Kind, kinds
from services.watcher.statuses import Statuses
from shared.api.faults import Parsed
from shared.domain.pods import Pod
from shared.domain.records import NODES
from shared.environment import Entry, Environment
from shared.kube.informer import Informer
from shared.kube.machines import Machines
from shared.leadership import Leadership
from shared.mirror import MirrorWriter
from shared.mirror.registrations import RegistrationOutcomes
from shared.runtime import Loop, Service, periodic
from shared.settings import WatcherSettings
from shared.streams import GROUPS

Note = Callable[[Kind, Mapping[str, Any], Parsed[Any] | None], None]
"""An object was seen as the watch shows it; None: it is gone."""
HEARTBEAT_SECONDS = 2.0
STATUS_SECONDS = 2.0
"""NP-24 allows five."""
TRIM_SECONDS = 30.0


async def build(env: Environment[WatcherSettings]) -> Service:
    """Wire the watcher."""
    leadership = env.leadership("watcher")
    writer = MirrorWriter(env.bus.redis, env.bus.prefix, epoch=env.instance)
    journal = Journal(writer, env.bus, env.clock)
    statuses = Statuses(
        kube=env.kube,
        machines=Machines(env.kube),
        recorder=env.recorder,
        clock=env.clock,
        journal=journal,
        inline=InlineTemplates(env.kube, env.recorder, env.clock),
        registrations=RegistrationOutcomes(env.bus.redis, env.bus.prefix),
    )
    pod_events, joins = PodEvents(env.clock), Joins(env.clock)
    note = _note(env, journal, statuses, leadership, joins)
    watched = kinds(env.settings.feature_gates)
    informers = {kind.resource.plural: _informer(kind, env, note, pod_events) for kind in watched}

    async def tell() -> None:
        if journal.begun:  # before that a class that is not listed yet would look missing
            await statuses.refresh()
            if pod_events.latest:
                await pod_events.write(env.kube, journal.machines())
            await joins.write(journal, statuses.machines)

    async def write(stop: asyncio.Event) -> None:
        for informer in informers.values():
            await _first(stop, informer.synced)
        # A term may have been cut off in the middle of a batch: begin the mirror anew.
        journal.begun = False
        await journal.run(stop)

    def missing() -> list[str]:
        unsynced = [
            f"{name} were never listed" + (f": {i.last_error.message}" if i.last_error else "")
            for name, i in informers.items()
            if not i.synced.is_set()
        ]
        if unsynced or journal.begun or not leadership.held:
            return unsynced
        return ["the mirror is not written yet"]

    def status() -> dict[str, object]:
        return {
            **leadership.status(),
            "generation": journal.generation,
            "backlog": journal.backlog,
            "objects": {name: len(bodies) for name, bodies in journal.records.items()},
            "relists": {name: informer.restarts for name, informer in informers.items()},
        }

    timed = partial(periodic, clock=env.clock, jitter=env.random)
    acting = [
        Loop("mirror", write, progress=lambda: journal.last_progress or env.clock.monotonic()),
        timed("heartbeat", HEARTBEAT_SECONDS, journal.heartbeat),
        timed("statuses", STATUS_SECONDS, tell),
        timed("trim", TRIM_SECONDS, lambda: _trim(env)),
    ]
    loops = [
        *(_watch_loop(name, informer) for name, informer in informers.items()),
        *leadership.loops(),
        *map(leadership.led, acting),
    ]
    return Service("watcher", loops, env.metrics, status, missing)


def _note(
    env: Environment[WatcherSettings],
    journal: Journal,
    statuses: Statuses,
    leadership: Leadership,
    joins: Joins,
) -> Note:
    """Tell everybody who remembers objects."""
    conditions = Conditions(env.metrics, env.clock, lambda: leadership.held)
    env.metrics.add_page(conditions.text)

    def note(kind: Kind, raw: Mapping[str, Any], parsed: Parsed[Any] | None) -> None:
        journal.note(kind, raw, parsed.record if parsed else None)
        statuses.note(kind, raw, parsed)
        conditions.note(kind, raw, gone=parsed is None)
        if kind.name == NODES:
            joins.note(str(raw["metadata"]["name"]), parsed.record if parsed else None)

    return note


def _informer(
    kind: Kind,
    env: Environment[WatcherSettings],
    note: Note,
    pod_events: PodEvents,
) -> Informer:
    async def on_event(change: str, raw: Mapping[str, Any]) -> None:
        gone = change == "DELETED"
        parsed = kind.convert(raw)
        if isinstance(parsed.record, Pod):
            pod_events.note(parsed.record, gone=gone, first=not informer.synced.is_set())
        note(kind, raw, None if gone else parsed)

    informer = Informer(
        env.kube, kind.resource, on_event=on_event, clock=env.clock, random=env.random
    )
    return informer


def _watch_loop(name: str, informer: Informer) -> Loop:
    # Bookmarks come every minute at most; the informer's own watchdog lists again after two.
    return Loop(
        f"watch {name}", informer.run, late_seconds=300, progress=lambda: informer.last_progress
    )


async def _trim(env: Environment[WatcherSettings]) -> None:
    """F11: drop what every group has read."""
    for stream in GROUPS:
        await env.bus.trim(stream)


async def _first(stop: asyncio.Event, event: asyncio.Event) -> None:
    """Wait for ``event`` or the order to stop, whichever comes first."""
    while not stop.is_set() and not event.is_set():
        try:
            await asyncio.wait_for(event.wait(), 1.0)
        except TimeoutError:
            continue


ENTRY = Entry("watcher", WatcherSettings, build)
