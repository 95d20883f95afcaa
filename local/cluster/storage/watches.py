"""One bounded log of changes per kind, in order, read by any number of cursors.

A watcher has no queue of its own. It keeps a position in the log and sleeps until the log grows, so a thousand watchers
cost a thousand integers, and a slow watcher never keeps memory: when the log has passed its position, it gets 410
Expired and must list again, as with the real API server's watch cache. A burst of changes longer than the log between
two reads also expires a live watcher; raise ``log_length`` in that case.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

from local.cluster.api.errors import expired

Document = dict[str, Any]
"""One Kubernetes object as decoded JSON.

Documents handed out by the store are never changed in place.
"""

BATCH = 256
"""Most changes that a cursor returns before it yields to the event loop."""


class Stored:
    """One version of an object: the document, and its JSON after the first request for it."""

    __slots__ = ("_raw", "document")

    def __init__(self, document: Document) -> None:
        self.document = document
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        """The document as JSON; encoded once."""
        if self._raw is None:
            self._raw = orjson.dumps(self.document)
        return self._raw

    def forget_raw(self) -> None:
        """Drop the encoded bytes, because a newer version replaced this one."""
        self._raw = None


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the log.

    ``type`` is ADDED, MODIFIED or DELETED; ``previous`` is None only for ADDED.
    """

    revision: int
    type: str
    current: Stored
    previous: Stored | None


class ChangeLog:
    """The newest ``limit`` changes of one kind."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changes: list[Change] = []
        self._first = 0
        # In order, so that readers are woken in the same order in every run of a simulation.
        self._wakers: dict[asyncio.Event, None] = {}
        self.forgotten = 0
        """Revision of the newest change that is no longer kept."""

    @property
    def start(self) -> int:
        """The position of the oldest change that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """The position after the newest change."""
        return self._first + len(self._changes)

    def append(self, change: Change) -> Change:
        """Add ``change`` and wake every cursor."""
        self._changes.append(change)
        if len(self._changes) > self._limit:
            self._trim(len(self._changes) - self._limit + self._limit // 8)
        for waker in self._wakers:
            waker.set()
        return change

    def _trim(self, count: int) -> None:
        # An eighth at a time: a deletion at the front of the list for every append would be quadratic.
        self.forgotten = self._changes[count - 1].revision
        del self._changes[:count]
        self._first += count

    def expire(self, revision: int) -> None:
        """Forget every change up to ``revision``: every cursor, and readers of older revisions, must list again."""
        self._first = self.end + 1
        self._changes.clear()
        self.forgotten = revision
        for waker in self._wakers:
            waker.set()

    def after(self, revision: int) -> int:
        """The position of the first change newer than ``revision``.

        Raises ApiError 410 when too old.
        """
        if revision < self.forgotten:
            raise expired(f"too old resource version: {revision} ({self.forgotten})")
        return self._first + bisect_right(self._changes, revision, key=lambda c: c.revision)

    def read(self, position: int, count: int) -> list[Change]:
        """Up to ``count`` changes from ``position`` on. Raises ApiError 410 when they are no longer kept."""
        if position < self._first:
            raise expired(f"too old resource version: the log starts after {self.forgotten}")
        start = position - self._first
        return self._changes[start : start + count]

    def attach(self, waker: asyncio.Event) -> None:
        """Set ``waker`` at every append from now on."""
        self._wakers[waker] = None

    def detach(self, waker: asyncio.Event) -> None:
        """Stop setting ``waker``."""
        self._wakers.pop(waker, None)


class Cursor:
    """A reader's position in a log. Close it after use."""

    def __init__(self, log: ChangeLog, position: int) -> None:
        self._log = log
        self._position = position
        self._waker = asyncio.Event()
        log.attach(self._waker)

    @property
    def behind(self) -> bool:
        """Whether unread changes wait."""
        return self._position < self._log.end

    @property
    def expired(self) -> bool:
        """Whether the log no longer has this cursor's position."""
        return self._position < self._log.start

    def take(self, count: int = BATCH) -> list[Change]:
        """The next changes, empty when up to date.

        Raises ApiError 410 when the log no longer has this cursor's position.
        """
        changes = self._log.read(self._position, count)
        self._position += len(changes)
        return changes

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for more changes, at most ``seconds``. False when none came."""
        if self.behind:
            return True
        self._waker.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._waker.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Stop wake-ups by the log."""
        self._log.detach(self._waker)


class Subscription:
    """An in-process watch: all objects at the start, then every change."""

    def __init__(self, initial: list[Document], cursor: Cursor) -> None:
        self.initial = initial
        self._cursor = cursor

    async def events(self) -> AsyncIterator[tuple[str, Document, Document | None]]:
        """(type, object, previous object).

        Ends when the reader was too slow; the caller then subscribes again.
        """
        try:
            while not self._cursor.expired:
                for change in self._cursor.take():
                    previous = change.previous.document if change.previous else None
                    yield change.type, change.current.document, previous
                await self._cursor.wait()
        finally:
            self._cursor.close()

    def close(self) -> None:
        """End the subscription before it is exhausted."""
        self._cursor.close()
