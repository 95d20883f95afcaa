"""The feed: the latest changes with their numbers, so that a page which lost its connection continues without a gap.

A page is only a position in the feed: a slow one costs no memory. When its position has left the feed it gets the
whole picture again. Nothing here waits for a page.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from services.console.picture.picture import Delta, Picture

MOST_BYTES = 8 << 20
"""Of the changes that are kept for pages; a page that is further behind gets a snapshot."""


class Trust(msgspec.Struct, frozen=True):
    """Whether the picture can be relied on now, and why not."""

    ok: bool
    reason: str = ""
    missing: str = ""
    """What the picture lacks although it can be relied on: empty, or a sentence."""
    heard: int = 0
    """Seconds since the API server last sent anything to the watcher, in whole tens: the picture may be that old."""


NOT_LOADED = Trust(False, "the mirror is not loaded yet")


class Entry(NamedTuple):
    """One encoded change."""

    number: int
    body: bytes


@dataclass
class Feed:
    """Changes in order. ``epoch`` tells the numbers of one process from those of another."""

    picture: Picture
    epoch: str
    cluster: str
    version: str
    most_bytes: int = MOST_BYTES
    number: int = 0
    trust: Trust = NOT_LOADED
    readers: int = 0
    """Open streams."""
    at: float = 0.0
    """When the picture was last taken, in seconds since the epoch."""
    _entries: deque[Entry] = field(default_factory=deque)
    _bytes: int = 0
    _rows: tuple[int, msgspec.Raw, msgspec.Raw] | None = None
    """The number of the last change, and all nodes and pods after it, encoded once for all pages that need them."""
    _advanced: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, at: float, trust: Trust) -> bytes | None:
        """Put what changed in the picture since the last call into the feed; returns the entry, None for nothing."""
        delta = self.picture.take()
        self.at = at
        if not delta and trust == self.trust:
            return None
        self.trust = trust
        self.number += 1
        body = self._encoded(delta)
        self._keep(Entry(self.number, body))
        self._advanced.set()
        self._advanced = asyncio.Event()
        return body

    def _encoded(self, delta: Delta) -> bytes:
        head = {"id": self.id_of(self.number), "at": self.at, "trusted": self.trust}
        return msgspec.json.encode({**head, "put": delta.put, "gone": delta.gone})

    def _keep(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._bytes += len(entry.body)
        while self._bytes > self.most_bytes and self._entries:
            self._bytes -= len(self._entries.popleft().body)

    def id_of(self, number: int) -> str:
        """The id of an event: what a browser sends back as Last-Event-ID."""
        return f"{self.epoch}-{number}"

    def number_of(self, event_id: str) -> int | None:
        """The position after this event; None when it is of another process, unreadable, or no longer kept."""
        epoch, _, text = event_id.rpartition("-")
        if epoch != self.epoch or not text.isdecimal() or len(text) > 18:
            return None
        number = int(text)
        return number if self._holds(number) else None

    def _holds(self, number: int) -> bool:
        """Whether all changes after ``number`` are kept."""
        oldest = self._entries[0].number if self._entries else self.number + 1
        return oldest - 1 <= number <= self.number

    def after(self, number: int) -> Sequence[Entry] | None:
        """The changes after this position; None when some are no longer kept."""
        if not self._holds(number):
            return None
        missing = self.number - number
        start = len(self._entries) - missing
        return [self._entries[index] for index in range(start, len(self._entries))]

    async def wait_after(self, number: int, timeout_seconds: float) -> bool:
        """Wait for a change after ``number``; False after the timeout."""
        if self.number > number:
            return True
        advanced = self._advanced
        try:
            await asyncio.wait_for(advanced.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True

    def snapshot(self, at: float) -> tuple[int, bytes]:
        """The number of the last change, and the whole picture after it. ``at``: now, in seconds since the epoch."""
        nodes, pods = self._encoded_rows()
        head = {
            "id": self.id_of(self.number),
            "at": at,
            "cluster": self.cluster,
            "version": self.version,
            "trusted": self.trust,
        }
        return self.number, msgspec.json.encode({**head, "nodes": nodes, "pods": pods})

    def _encoded_rows(self) -> tuple[msgspec.Raw, msgspec.Raw]:
        held = self._rows
        if held is None or held[0] != self.number:
            parts = (self.picture.nodes, self.picture.pods)
            nodes, pods = (msgspec.Raw(msgspec.json.encode(list(one.values()))) for one in parts)
            held = self._rows = (self.number, nodes, pods)
        return held[1:]

    def beat(self, now: float) -> bytes:
        """Shows a page that the connection lives, and whether the picture can be relied on."""
        return msgspec.json.encode({"at": now, "trusted": self.trust})
