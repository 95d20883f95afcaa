"""List and watch one kind for ever, and report every change to the caller (F15).

How it works: a consistent paged LIST, then WATCH from its version with bookmarks; each watch lasts
a random 240 to 480 s. The informer keeps only (uid, resourceVersion) per object, so 10,000 pods cost
a few MB; the caller keeps the fields it needs. The difference between a LIST and the known objects
becomes ``Put`` and ``Deleted``. A deletion carries the identity only, even when the watch sent a last
state: a deletion that was missed has no last state, so callers must not depend on one.

What may go wrong, and what happens then:
- position expired (410 at open or in the stream), ERROR event: list again, after a jittered
  back-off of 0.5 to 30 s;
- broken, half-written or silent stream: resume after the last whole event; after three in a row,
  list again;
- list expired between pages: list again;
- duplicated or late events: dropped, because a watch is ordered by version;
- a server that lost its data (versions run backwards): detected by its bookmark, list again;
- a kind that the server does not serve: an error, unless it is ``optional``: then it has no objects
  until the server serves it;
- the caller's ``on_event`` raises a DovetailError: logged, list again, so the event is repeated;
- ``on_event`` raises anything else: ``run`` raises it, for the supervisor.
So delivery is at least once, in order per object, and after any fault the caller's state becomes
equal to the server's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from math import inf
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import run_until
from shared.errors import (
    ConfigurationError,
    DovetailError,
    Gone,
    NotFound,
    TransientError,
    Unreachable,
)
from shared.kube.client import Kube
from shared.kube.listing import KubeList
from shared.kube.resources import Resource
from shared.kube.watching import WatchEvent
from shared.log import get_logger

log = get_logger(__name__)

SHORTEST_WATCH_SECONDS = 240
LONGEST_WATCH_SECONDS = 480
RESUMES = 3
"""Watches in a row that may break without an event before the informer lists again."""
UNREACHABLE_SECONDS = 4.0
"""Longest pause while the server is unreachable: changes during an outage are seen within seconds after its end."""
ABSENT_SECONDS = 30.0
"""How often it is asked whether the server serves an optional kind by now."""
HEALTHY_WATCH_SECONDS = 10.0
"""A watch that lasted this long did not fail, even if it delivered no event."""


class Key(NamedTuple):
    """The namespace and name of one object; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Known(NamedTuple):
    """The identity and version that the informer keeps of an object."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Put:
    """A new or changed object in its current state."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deleted object. ``version`` is its last known resourceVersion."""

    key: Key
    uid: str
    version: str


Event = Put | Deleted
OnEvent = Callable[[Event], Awaitable[None]]


@dataclass(eq=False)
class Informer:
    """Watches one kind. Call ``run`` in a supervised task, once at a time.

    ``synced`` is set after the first complete list; ``last_progress`` is the monotonic time of the
    last complete list or the last byte of an open watch (-inf: never), and a failed list is no
    progress; ``restarts`` counts lists after the first; ``last_error`` is None after a success.
    """

    kube: Kube
    resource: Resource
    on_event: OnEvent
    """Awaited for one event after the other."""
    clock: Clock
    random: Random
    first_backoff: float = 0.5
    optional: bool = False
    """A server that does not serve the kind has no objects of it."""

    def __post_init__(self) -> None:
        self.synced = asyncio.Event()
        self.absent = False
        """Whether the kind is optional, and the server did not serve it when it was last listed."""
        self.last_progress = -inf
        self.restarts = 0
        self.last_error: DovetailError | None = None
        self._backoff = Backoff(self.random, first=self.first_backoff)
        self._known: dict[Key, Known] = {}
        self.position = ""
        """The resourceVersion up to which ``on_event`` has handled every event; "" before the first list."""
        self._open = False
        self._unsound_since = self.clock.monotonic()
        self._relist_requested = asyncio.Event()

    def __len__(self) -> int:
        """How many objects are known."""
        return len(self._known)

    @property
    def sound(self) -> bool:
        """Whether the kind was listed and its watch is open or not needed, with nothing failed since."""
        return (self._open or self.absent) and self.synced.is_set()

    def unsound_seconds(self) -> float:
        """Seconds since the watch was last ``sound``; 0.0 while it is."""
        return 0.0 if self.sound else self.clock.monotonic() - self._unsound_since

    @property
    def known(self) -> Mapping[Key, Known]:
        """Every object that was reported and is not deleted. A live view of the informer's state."""
        return MappingProxyType(self._known)

    def report_again(self, objects: Mapping[Key, str]) -> None:
        """List again, and report these objects (key -> UID) again in their current state, or as deleted.

        For a caller whose copies of them are wrong, whether or not they are known here.
        """
        for key, uid in objects.items():
            known = self._known.get(key)
            self._known[key] = Known(known.uid if known else uid, "")
        self._relist_requested.set()

    @property
    def has_unreported(self) -> bool:
        """Whether an object of ``report_again`` has not been reported yet."""
        return any(not known.version for known in self._known.values())

    async def run(self, stop: asyncio.Event) -> None:
        """List and watch until ``stop``. Raises ConfigurationError and what ``on_event`` raises."""
        await run_until(stop, self._run())

    async def _run(self) -> None:
        first = True
        while True:
            try:
                if not first or self.synced.is_set():
                    self.restarts += 1
                first = False
                await self._list()
                while self.absent:
                    await asyncio.sleep(ABSENT_SECONDS)
                    await self._list()
                # Ends when the watch fails for good, or when ``report_again`` requests a new list.
                await run_until(self._relist_requested, self._watch())
            except ConfigurationError:
                raise
            except DovetailError as error:
                await self._pause("cannot list or watch, listing again", error)

    async def _pause(self, message: str, error: DovetailError) -> None:
        self.last_error = error
        delay = pause_after(error, self._backoff)
        log.warning(message, kind=self.resource.kind, error=error.message, wait_seconds=delay)
        await asyncio.sleep(delay)

    async def _list(self) -> None:
        self._relist_requested.clear()
        seen: set[Key] = set()
        version = await self._take_pages(seen)
        for key in [key for key in self._known if key not in seen]:
            await self._delete(key)
        self.position = version
        self.last_error = None
        self._progress()
        self.synced.set()

    async def _take_pages(self, seen: set[Key]) -> str:
        """The version of the list; "" for an optional kind that is not served."""
        version = ""
        try:
            async with aclosing(self.kube.pages(self.resource)) as pages:
                async for page in pages:
                    await self._take_page(page, seen)
                    version = page.resource_version
        except NotFound:
            # A 404 alone may come from something on the way to the server.
            if not self.optional or await self.kube.serves(self.resource):
                raise
            self._note_absent(absent=True)
            return ""
        self._note_absent(absent=False)
        return version

    def _note_absent(self, *, absent: bool) -> None:
        if absent and not self.absent:
            log.warning(
                "the API server does not serve a kind: it counts as without objects",
                kind=self.resource.qualified,
            )
        if self.absent and not absent:
            log.info("the API server serves a kind now", kind=self.resource.qualified)
            self._unsound_since = self.clock.monotonic()
        self.absent = absent

    async def _take_page(self, page: KubeList, seen: set[Key]) -> None:
        for item in page.items:
            seen.add(key_of(item))
            await self._upsert(item)

    async def _watch(self) -> None:
        """Watch and resume until the position expires or three watches in a row fail; raises that error."""
        failures = 0
        while True:
            opened = self.clock.monotonic()
            position = self.position
            trouble: TransientError | None = None
            try:
                await self._watch_once()
            except TransientError as error:
                trouble = error
            lived = self.clock.monotonic() - opened
            if lived >= HEALTHY_WATCH_SECONDS:
                self._backoff.reset()
            if self.position != position or (trouble is None and lived >= HEALTHY_WATCH_SECONDS):
                failures = 0
                self._healthy()
            else:
                failures += 1
            if failures >= RESUMES:
                raise trouble or Gone(f"{RESUMES} watches in a row ended at once")
            if trouble or failures:
                ended = trouble or DovetailError("the watch ended at once")
                await self._pause("the watch broke, resuming it", ended)

    async def _watch_once(self) -> None:
        events = self.kube.watch(
            self.resource,
            self.position,
            timeout_seconds=self.random.randint(SHORTEST_WATCH_SECONDS, LONGEST_WATCH_SECONDS),
            on_bytes=self._heard,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    await self._take(event)
        finally:
            # Changes are not seen until the next watch is open, however this one ended.
            if self._open:
                self._open, self._unsound_since = False, self.clock.monotonic()

    async def _take(self, event: WatchEvent) -> None:
        version = str(event.object["metadata"].get("resourceVersion", ""))
        order = compare_versions(version, self.position)
        if event.type == "BOOKMARK":
            if order < 0:
                raise Gone(f"the server went back from version {self.position} to {version}")
        elif order <= 0:
            return
        elif event.type == "DELETED":
            await self._take_deletion(event.object, version)
        else:
            await self._upsert(event.object)
        self.position = version
        self._healthy()

    async def _upsert(self, item: dict[str, Any]) -> None:
        key, new = key_of(item), known_of(item)
        old = self._known.get(key)
        if old == new:
            return
        if old and old.uid != new.uid:
            # The object was deleted and created again under the same name between two events.
            await self._delete(key)
        await self.on_event(Put(item))
        self._known[key] = new

    async def _take_deletion(self, item: dict[str, Any], version: str) -> None:
        key = key_of(item)
        known = self._known.get(key)
        if known is not None and known.uid == known_of(item).uid:
            await self._delete(key, version)

    async def _delete(self, key: Key, version: str = "") -> None:
        known = self._known[key]
        await self.on_event(Deleted(key, known.uid, version or known.version))
        self._known.pop(key, None)

    def _heard(self) -> None:
        self._open = True
        self._progress()

    def _progress(self) -> None:
        self.last_progress = self.clock.monotonic()

    def _healthy(self) -> None:
        self.last_error = None
        self._backoff.reset()


def pause_after(error: DovetailError, backoff: Backoff) -> float:
    """Seconds until the next attempt.

    The delay doubles while the server answers with errors, which limits its load. An unreachable
    server has no load from attempts, and its return is only seen by one, so its delay is capped.
    """
    wait = error.context.get("retry_after")
    delay = backoff.next(at_least=wait if isinstance(wait, float) else 0.0)
    return min(delay, UNREACHABLE_SECONDS) if isinstance(error, Unreachable) else delay


def compare_versions(left: str, right: str) -> int:
    """-1, 0 or 1 as ``left`` is older than, the same as or newer than ``right``.

    Resource versions of one kind are ordered decimal numbers (Kubernetes API concepts, "Resource versions"); on a
    server that uses anything else, different means newer, and duplicates reach the caller.
    """
    if left == right:
        return 0
    if left.isdecimal() and right.isdecimal():
        return 1 if int(left) > int(right) else -1
    return 1


def key_of(item: Mapping[str, Any]) -> Key:
    """The key of an object from the API server."""
    metadata = item["metadata"]
    return Key(str(metadata.get("namespace") or ""), str(metadata["name"]))


def known_of(item: Mapping[str, Any]) -> Known:
    """The identity and version of an object from the API server."""
    metadata = item["metadata"]
    return Known(str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or ""))
