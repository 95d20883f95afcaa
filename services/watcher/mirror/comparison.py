"""Whether the picture of the cluster can be relied on: each watch is open, and what it shows agrees with a fresh list.

A watch may be refused or break again and again, a list may never end, or a connection is half-open, so that nothing
comes and nothing fails. In all three the picture grows old without an error.

A watch is trusted to show everything; a periodic comparison with a fresh list of every kind finds out when it did not,
whatever the cause: a fault of this service, of a proxy, of the API server's cache. Only metadata is listed. A list
shows the cluster at one version. It is compared only when the watches are at or past that version, or had ample time to
get there, so a change that is under way is no difference; and a difference counts only if a second list shows it too,
because an object may go between the list and the comparison.

What differs is read again by the informer, which hands it over anew. Until a later list shows no difference the
watcher is not ready.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from services.watcher.conversion import Kind
from services.watcher.mirror.journal import Journal
from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause, run_until
from shared.errors import DovetailError, Unavailable
from shared.kube.client import Kube
from shared.kube.informer import Informer, Key, Known, compare_versions, key_of, known_of
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.mirror import Position
from shared.runtime.services import Loop

log = get_logger(__name__)

MISSING, NOT_LISTED, STALE = "missing", "ghost", "stale"
CATCH_UP_SECONDS = 75.0
"""A watch gets to the version of a list within this, by a bookmark if by nothing else."""
POLL_SECONDS = 0.25
HEAL_SECONDS = 60.0
LISTS_AT_ONCE = 2
SHOWN = 5
"""Objects that a log line names."""
UNSOUND_SECONDS = 3.0
"""A watch may be without a connection for so long: one that ends is opened again within a second."""
SILENT_SECONDS = 80.0
"""Bookmarks come every minute; after 75 s of silence the connection itself is opened again."""
REOPEN_SECONDS = 1.0
"""Every few minutes a watch ends and the next one is opened."""
LONGEST_SECONDS = 1e9
"""In place of never: heartbeats are JSON."""


class Difference(NamedTuple):
    """``direction``: missing from what is held, "ghost" (held, but not listed), or stale (held in an older version)."""

    direction: str
    uid: str


Differences = dict[Key, Difference]


class Watch(NamedTuple):
    kind: Kind
    informer: Informer


def differences(
    listed: Mapping[Key, Known], held: Mapping[Key, Known], version: str
) -> Differences:
    """How ``held``, of a watch that is at or past ``version``, differs from the list of that version.

    What is newer than the list is no difference; what is missing may have gone after the list.
    """
    found: Differences = {}
    for key, there in listed.items():
        here = held.get(key)
        if here is None:
            found[key] = Difference(MISSING, there.uid)
        elif _is_stale(here, there, version):
            found[key] = Difference(STALE, here.uid)
    for key, here in held.items():
        if key not in listed and compare_versions(here.version, version) <= 0:
            found[key] = Difference(NOT_LISTED, here.uid)
    return found


def _is_stale(here: Known, there: Known, version: str) -> bool:
    if here.uid == there.uid:
        return compare_versions(here.version, there.version) < 0
    return compare_versions(here.version, version) <= 0


def in_both(first: Differences, second: Differences) -> Differences:
    """What both lists show."""
    return {key: one for key, one in second.items() if first.get(key) == one}


@dataclass
class Comparison:
    """``loop`` compares for ever; ``problems`` says what is not healed yet."""

    kube: Kube
    watches: Sequence[Watch]
    journal: Journal
    metrics: Metrics
    clock: Clock
    random: Random
    last_progress: float = field(init=False)
    _unhealed: dict[str, str] = field(default_factory=dict)
    """Plural of a kind -> what differs."""
    _listing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LISTS_AT_ONCE))

    def __post_init__(self) -> None:
        self.last_progress = self.clock.monotonic()

    def loop(self, seconds: float) -> Loop:
        """Compares every ``seconds`` +-20 %; the first time after one such period."""

        async def run(stop: asyncio.Event) -> None:
            while await pause(stop, seconds * self.random.uniform(0.8, 1.2)):
                await run_until(stop, self.compare())
                self.last_progress = self.clock.monotonic()

        longest = 3 * CATCH_UP_SECONDS + HEAL_SECONDS
        late = 2 * (seconds + longest)
        return Loop("compare", run, late_seconds=late, progress=lambda: self.last_progress)

    def problems(self) -> list[str]:
        """The kinds whose picture is known to be wrong, as texts for readiness."""
        return list(self._unhealed.values())

    @property
    def unhealed(self) -> Set[str]:
        """Plurals of the kinds whose picture is known to be wrong."""
        return self._unhealed.keys()

    async def compare(self) -> None:
        """Every kind once. One that cannot be listed is left for the next time."""
        async with TaskGroup() as group:
            for watch in self.watches:
                if not watch.informer.absent:
                    group.create_task(self._attempt(watch))

    async def _attempt(self, watch: Watch) -> None:
        plural = watch.kind.watch
        try:
            await self._compare_kind(watch)
        except DovetailError as error:
            log.warning("cannot compare with a fresh list", kind=plural, error=error.message)

    async def _compare_kind(self, watch: Watch) -> None:
        plural = watch.kind.watch
        found = await self._differences(watch)
        if found:
            found = in_both(found, await self._differences(watch))
        if found:
            self._report(watch, found)
            await self._heal(watch, found)
            found = in_both(found, await self._differences(watch))
        if not found and self._unhealed.pop(plural, ""):
            log.info("the picture agrees with the API server again", kind=plural)

    def _report(self, watch: Watch, found: Differences) -> None:
        kind, plural = watch.kind.identity, watch.kind.watch
        counts = Counter(one.direction for one in found.values())
        for direction, count in counts.items():
            self.metrics.watch_differences.labels(kind, direction).inc(count)
        text = ", ".join(f"{count} {direction}" for direction, count in sorted(counts.items()))
        self._unhealed[plural] = f"{plural} differ from a fresh list ({text}) and are read again"
        shown = [str(key) for key in list(found)[:SHOWN]]
        log.error("the picture differs from a fresh list", kind=plural, found=text, objects=shown)

    async def _heal(self, watch: Watch, found: Differences) -> None:
        """Have the objects handed over again. Raises Unavailable when the informer does not come to it."""
        watch.informer.report_again({key: one.uid for key, one in found.items()})
        deadline = self.clock.monotonic() + HEAL_SECONDS
        while watch.informer.has_unreported:
            if self.clock.monotonic() > deadline:
                raise Unavailable(f"it was not listed again within {HEAL_SECONDS:.0f} s")
            await asyncio.sleep(POLL_SECONDS)

    async def _differences(self, watch: Watch) -> Differences:
        """Raises Unavailable when the watch is not sound: then readiness knows, and nothing can be compared."""
        async with self._listing:
            listed, version = await self._list(watch.kind)
        await self._catch_up(watch.informer, version)
        if not watch.informer.sound:
            raise Unavailable("its watch is not open")
        return {
            **differences(listed, self.journal.held(watch.kind), version),
            **differences(listed, watch.informer.known, version),
        }

    async def _list(self, kind: Kind) -> tuple[dict[Key, Known], str]:
        """Raises DovetailError."""
        found: dict[Key, Known] = {}
        version = ""
        async with aclosing(self.kube.pages(kind.resource, metadata_only=True)) as pages:
            async for page in pages:
                found |= {key_of(item): known_of(item) for item in page.items}
                version = page.resource_version
        return found, version

    async def _catch_up(self, informer: Informer, version: str) -> None:
        """Wait until the watch is at ``version``, or had the time to get there."""
        deadline = self.clock.monotonic() + CATCH_UP_SECONDS
        while compare_versions(informer.position, version) < 0:
            if self.clock.monotonic() > deadline:
                return
            await asyncio.sleep(POLL_SECONDS)


def positions(
    informers: Mapping[str, Informer], wrong: Set[str], now: float
) -> dict[str, Position]:
    """How far the watches are, for the mirror's readers; by plural, ``now`` is monotonic time.

    ``wrong``: kinds whose picture is known to differ from the cluster. Nothing may be bought by it.
    """
    return {
        plural: _position(informer, now, wrong=plural in wrong)
        for plural, informer in informers.items()
    }


def _position(informer: Informer, now: float, *, wrong: bool) -> Position:
    unsound = informer.unsound_seconds()
    sound = informer.synced.is_set() and unsound < REOPEN_SECONDS and not wrong
    seconds = now - informer.last_progress if sound else unsound
    return Position(informer.position, sound, min(seconds, LONGEST_SECONDS))


def problem_of(plural: str, informer: Informer, now: float) -> str:
    """Why the picture of one kind may be out of date; "": it is not. ``now`` is monotonic time."""
    error = f": {informer.last_error.message}" if informer.last_error else ""
    if not informer.synced.is_set():
        return f"{plural} were never listed{error}"
    unsound = informer.unsound_seconds()
    if unsound > UNSOUND_SECONDS:
        return f"{plural} have not been watched for {unsound:.0f} s{error}"
    silent = now - informer.last_progress
    if silent > SILENT_SECONDS:
        return f"the watch of {plural} has been silent for {silent:.0f} s{error}"
    return ""
