"""List and watch one kind for ever, and tell the caller about every change (reliability F15).

How it works: a consistent paged LIST, then WATCH from its version with bookmarks; each watch lives
a random 240 to 480 s. Per object only (uid, resourceVersion) is kept, so 10,000 pods cost a few MB:
the caller keeps what it needs. The difference between a LIST and what is known becomes ADDED,
MODIFIED and DELETED.

What may go wrong, and what happens then:
- position expired (410 at open or in the stream), ERROR event: list again, after a jittered
  back-off of 0.5 to 30 s;
- broken, half-written or silent stream: resume after the last whole event; after three in a row,
  list again;
- list expired between pages: list again;
- duplicated or late events: dropped, because a watch is ordered by version;
- a server that lost its data (versions run backwards): seen by its bookmark, list again;
- the caller's ``on_event`` raises a DovetailError: logged, list again, so the event comes again;
  it raises anything else: ``run`` raises it, for the supervisor.
So delivery is at least once, in order per object, and the caller's state equals the server's after
any fault. A DELETED that was found by listing carries identity only (apiVersion, kind, metadata),
as the object is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from math import inf
from random import Random
from typing import Any, NamedTuple

from shared.clock import Clock
from shared.errors import ConfigurationError, DovetailError, Gone, TransientError
from shared.kube.client import Kube
from shared.kube.listing import KubeList
from shared.kube.pacing import Backoff
from shared.kube.resources import Resource
from shared.kube.stopping import run_until
from shared.kube.watching import WatchEvent
from shared.log import get_logger

log = get_logger(__name__)

SHORTEST_WATCH_SECONDS = 240
LONGEST_WATCH_SECONDS = 480
RESUMES = 3
"""Watches in a row that may break without an event before the informer lists again."""
HEALTHY_WATCH_SECONDS = 10.0
"""A watch that lasted this long was no failure, even if nothing happened in it."""

Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped objects."""
OnEvent = Callable[[str, dict[str, Any]], Awaitable[None]]
OnSynced = Callable[[], Awaitable[None]]


class Known(NamedTuple):
    """What the informer remembers of an object."""

    uid: str
    version: str


class Informer:
    """One kind, watched. ``run`` it in a supervised task, once at a time.

    ``synced`` is set after the first complete list; ``last_progress`` is the monotonic time of the
    last complete list or the last byte of an open watch (-inf: never), and a list that fails is no
    progress; ``restarts`` counts lists after the first; ``last_error`` is None while all is well.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        *,
        on_event: OnEvent,
        clock: Clock,
        random: Random,
        on_synced: OnSynced | None = None,
        namespace: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
        first_backoff: float = 0.5,
    ) -> None:
        """``on_event(type, object)`` gets ADDED, MODIFIED or DELETED.

        ``on_synced()`` is called after every complete list, the first and later ones.
        """
        self.synced = asyncio.Event()
        self.last_progress = -inf
        self.restarts = 0
        self.duplicates = 0
        self.last_error: DovetailError | None = None
        self._kube = kube
        self._resource = resource
        self._on_event = on_event
        self._on_synced = on_synced
        self._namespace = namespace
        self._field_selector = field_selector
        self._page_size = page_size
        self._clock = clock
        self._random = random
        self._backoff = Backoff(random, first=first_backoff)
        self._known: dict[Key, Known] = {}
        self._position = ""
        self._open = False
        self._unsound_since = clock.monotonic()
        self._resend = asyncio.Event()

    def __len__(self) -> int:
        """How many objects are known."""
        return len(self._known)

    @property
    def position(self) -> str:
        """The resourceVersion up to which ``on_event`` was given everything and took it; "": none yet."""
        return self._position

    @property
    def sound(self) -> bool:
        """Whether the kind was listed and its watch is open, with nothing failed since."""
        return self._open and self.synced.is_set()

    def unsound_seconds(self) -> float:
        """How long it has not been sound; 0.0 while it is."""
        return 0.0 if self.sound else self._clock.monotonic() - self._unsound_since

    def resend(self) -> None:
        """List again, delivering all objects as MODIFIED: for a caller that lost its state."""
        self._resend.set()

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
                # Either the watch gives up, or somebody asks for a new list.
                await run_until(self._resend, self._watch())
            except ConfigurationError:
                raise
            except DovetailError as error:
                await self._pause("cannot list or watch, listing again", error)

    async def _pause(self, message: str, error: DovetailError) -> None:
        self.last_error = error
        wait = error.context.get("retry_after")
        delay = self._backoff.next(at_least=wait if isinstance(wait, float) else 0.0)
        log.warning(message, kind=self._resource.kind, error=error.message, wait_seconds=delay)
        await asyncio.sleep(delay)

    async def _list(self) -> None:
        if self._resend.is_set():
            self._resend.clear()
            self._known = {key: Known(known.uid, "") for key, known in self._known.items()}
        seen: set[Key] = set()
        version = ""
        pages = self._kube.pages(
            self._resource,
            self._namespace,
            field_selector=self._field_selector,
            page_size=self._page_size,
        )
        async with aclosing(pages):
            async for page in pages:
                await self._take_page(page, seen)
                version = page.resource_version
        for key in [key for key in self._known if key not in seen]:
            await self._forget(key)
        self._position = version
        self.last_error = None
        self._progress()
        if self._on_synced:
            await self._on_synced()
        self.synced.set()

    async def _take_page(self, page: KubeList, seen: set[Key]) -> None:
        for item in page.items:
            seen.add(_key(item))
            await self._upsert(item)

    async def _watch(self) -> None:
        """Watch, and resume, until the position is lost or three watches in a row fail; raises."""
        failures = 0
        while True:
            opened = self._clock.monotonic()
            position = self._position
            trouble: TransientError | None = None
            try:
                await self._watch_once()
            except TransientError as error:
                trouble = error
            lived = self._clock.monotonic() - opened
            if self._position != position or (trouble is None and lived >= HEALTHY_WATCH_SECONDS):
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
        events = self._kube.watch(
            self._resource,
            self._position,
            namespace=self._namespace,
            field_selector=self._field_selector,
            timeout_seconds=self._random.randint(SHORTEST_WATCH_SECONDS, LONGEST_WATCH_SECONDS),
            on_bytes=self._heard,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    await self._take(event)
        finally:
            # However it ended: changes may pass unseen until the next watch is open.
            self._open = False
            self._unsound_since = self._clock.monotonic()

    async def _take(self, event: WatchEvent) -> None:
        version = str(event.object["metadata"].get("resourceVersion", ""))
        order = compare_versions(version, self._position)
        if event.type == "BOOKMARK":
            if order < 0:
                raise Gone(f"the server went back from version {self._position} to {version}")
        elif order <= 0:
            self.duplicates += 1
            return
        elif event.type == "DELETED":
            await self._delete(event.object)
        else:
            await self._upsert(event.object)
        self._position = version
        self._healthy()

    async def _upsert(self, item: dict[str, Any]) -> None:
        key, metadata = _key(item), item["metadata"]
        new = Known(str(metadata.get("uid", "")), str(metadata.get("resourceVersion", "")))
        old = self._known.get(key)
        if old == new:
            return
        if old and old.uid != new.uid:
            # Deleted and created again under the same name while we did not look.
            await self._forget(key)
            old = None
        await self._on_event("MODIFIED" if old else "ADDED", item)
        self._known[key] = new

    async def _delete(self, item: dict[str, Any]) -> None:
        key = _key(item)
        known = self._known.get(key)
        if known is None or known.uid != str(item["metadata"].get("uid", "")):
            self.duplicates += 1
            return
        await self._on_event("DELETED", item)
        self._known.pop(key, None)

    async def _forget(self, key: Key) -> None:
        """Tell the caller that an object is gone which nobody can show any more."""
        known = self._known[key]
        namespace, name = key
        metadata = {"name": name, "uid": known.uid, "resourceVersion": known.version}
        if namespace:
            metadata["namespace"] = namespace
        stub = {
            "apiVersion": self._resource.api_version,
            "kind": self._resource.kind,
            "metadata": metadata,
        }
        await self._on_event("DELETED", stub)
        self._known.pop(key, None)

    def _heard(self) -> None:
        self._open = True
        self._progress()

    def _progress(self) -> None:
        self.last_progress = self._clock.monotonic()

    def _healthy(self) -> None:
        self.last_error = None
        self._backoff.reset()


def compare_versions(left: str, right: str) -> int:
    """-1, 0 or 1 as ``left`` is older than, the same as or newer than ``right``.

    Resource versions of one kind are ordered decimal numbers (Kubernetes API concepts, "Resource
    versions"); on a server that uses anything else, different means newer, and duplicates reach the
    caller.
    """
    if left == right:
        return 0
    if left.isdecimal() and right.isdecimal():
        return 1 if int(left) > int(right) else -1
    return 1


def _key(item: dict[str, Any]) -> Key:
    metadata = item["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])
