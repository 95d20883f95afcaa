"""Watches over HTTP: a cursor on the log of changes, written as one JSON event per line.

A selector turns changes into transitions: an object that starts to match is ADDED for this watcher, one that stops is
DELETED. Slow watchers are disconnected: a socket may block at most ``SEND_SECONDS`` per batch, and a watcher that the
log has passed gets 410 and must list again. Bookmarks every ten seconds let clients detect half-open connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import orjson
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from local.cluster.api.errors import ApiError, expired
from local.cluster.printing.rendering import Renderer
from local.cluster.storage.collection import Collection
from local.cluster.storage.selectors import Predicate
from local.cluster.storage.store import Store
from local.cluster.storage.watches import BATCH, Change, Cursor, Document, Stored
from shared.log import get_logger

log = get_logger(__name__)

BOOKMARK_SECONDS = 10.0
SEND_SECONDS = 30.0
LONGEST_SECONDS = 3600
INITIAL_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True)
class WatchOptions:
    """The client's options. ``revision`` None or 0: start with all existing objects."""

    namespace: str
    matches: Predicate | None
    revision: int | None
    bookmarks: bool
    initial_events: bool
    seconds: float


def _line(kind: str, rendered: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), rendered)


@dataclass(frozen=True)
class WatchStream:
    """One client's watch of one collection."""

    store: Store
    collection: Collection
    rendering: Renderer
    options: WatchOptions

    def _wants(self, stored: Stored) -> bool:
        document, options = stored.document, self.options
        if options.namespace and document["metadata"].get("namespace") != options.namespace:
            return False
        return options.matches is None or options.matches(document)

    def _event(self, change: Change) -> bytes:
        after = self._wants(change.current)
        before = change.previous is not None and self._wants(change.previous)
        if change.type == "DELETED":
            kind = "DELETED" if before or after else ""
        elif after:
            kind = "MODIFIED" if before else "ADDED"
        else:
            kind = "DELETED" if before else ""
        return _line(kind, self.rendering.event(change.current)) if kind else b""

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        metadata: Document = {"resourceVersion": str(self.store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        return _line("BOOKMARK", self.rendering.bookmark(metadata))

    def _start(self) -> tuple[Iterator[Stored], int]:
        """The initial objects and the position from which to continue. Raises ApiError 410."""
        options, changes = self.options, self.collection.log
        from_scratch = not options.revision or options.initial_events
        if from_scratch:
            objects = list(self.collection.scan(options.namespace or None))
            skip = options.revision is None and not options.initial_events
            return iter([] if skip else objects), changes.end
        revision = options.revision or 0
        if revision > self.store.revision:
            # A revision from before a restart of this server: all of the client's state is invalid.
            raise expired(f"too large resource version: {revision} ({self.store.revision})")
        return iter(()), changes.after(revision)

    async def lines(self) -> AsyncIterator[bytes]:
        """The watch, in chunks of whole lines."""
        try:
            objects, position = self._start()
        except ApiError as error:
            yield _line("ERROR", orjson.dumps(error.status()))
            return
        cursor = Cursor(self.collection.log, position)
        try:
            for chunk in self._initial(objects):
                yield chunk
            async for chunk in self._follow(cursor):
                yield chunk
        except ApiError as error:
            log.info("watcher was too slow", resource=self.collection.resource.plural)
            yield _line("ERROR", orjson.dumps(error.status()))
        finally:
            cursor.close()

    def _initial(self, objects: Iterator[Stored]) -> Iterator[bytes]:
        lines: list[bytes] = []
        for stored in objects:
            if self._wants(stored):
                lines.append(_line("ADDED", self.rendering.event(stored)))
            if len(lines) >= BATCH:
                yield b"".join(lines)
                lines = []
        if self.options.initial_events:
            lines.append(self._bookmark(INITIAL_END))
        if lines:
            yield b"".join(lines)

    async def _follow(self, cursor: Cursor) -> AsyncIterator[bytes]:
        clock, options = self.store.clock, self.options
        end = clock.monotonic() + options.seconds
        bookmark_at = clock.monotonic() + BOOKMARK_SECONDS
        while (now := clock.monotonic()) < end:
            chunk = b"".join(self._event(change) for change in cursor.take())
            if chunk:
                yield chunk
            if options.bookmarks and now >= bookmark_at and not cursor.behind:
                yield self._bookmark()
                bookmark_at = now + BOOKMARK_SECONDS
            due = min(end, bookmark_at) if options.bookmarks else end
            await cursor.wait(max(due - clock.monotonic(), 0.001))


class WatchResponse(StreamingResponse):
    """A streaming response that ends when the client does not take a chunk in time."""

    async def stream_response(self, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            await super().stream_response(bounded)
        except TimeoutError:
            log.info("watcher does not read; its watch is closed", seconds=SEND_SECONDS)
