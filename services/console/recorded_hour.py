"""The hour before this console started, from the scheduler's records: pictures, changes and decisions.

It is read in a process of its own, because an hour of a large cluster takes many seconds and much memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from services.console.feed.feed import Feed, Trust
from services.console.feed.history import HORIZON_SECONDS, History, pack
from services.console.picture.picture import KINDS, Picture
from services.console.picture.rows import Words
from services.console.reports.advice import shortened
from services.console.reports.decisions import MOST_DECISIONS
from shared.distribution.version import VERSION
from shared.domain.records import PODS
from shared.runtime.archive.log import Log
from shared.runtime.archive.opening import open_store
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.child import Bounds
from shared.simulation.decisions.changes import (
    Base,
    Change,
    DecidedHead,
    Head,
    Put,
    decode_changes,
)

STEP_SECONDS = 1.0
"""Changes that are closer together become one."""
BOUNDS = Bounds("reading the recorded hour", seconds=120.0, memory_bytes=256 << 20, niceness=10)
_TRUSTED = Trust(ok=True)


class RecordedHour(NamedTuple):
    """``decisions``: rows as of ``Decisions``, oldest first."""

    history: History
    decisions: list[dict[str, Any]]


class HourQuestion(NamedTuple):
    """``end``: seconds since the epoch."""

    place: ArchivePlace
    end: float


class _Pod(msgspec.Struct):
    uid: str


class _Plan(msgspec.Struct):
    unschedulable: dict[str, str]


def read_hour(question: HourQuestion) -> RecordedHour:
    """The body of the reading process. Raises Unavailable, NotFound and InvalidObject as the archive does."""
    return asyncio.run(hour_before(*question))


async def hour_before(place: ArchivePlace, end: float) -> RecordedHour:
    """Raises Unavailable, NotFound and InvalidObject as the archive does."""
    begin = end - HORIZON_SECONDS
    hour = _Hour(place.cluster, begin, end)
    store = open_store(place.address, endpoint_url=place.endpoint_url)
    log = Log(store, place.cluster, place.role, decode_changes)
    try:
        for series in await log.series_between(begin, end):
            for chunk in await log.chunks_of(series, end):
                await _add(hour, log, await log.entries(chunk))
    finally:
        await store.close()
    return hour.found()


async def _add(hour: _Hour, log: Log[Change], entries: list[Change]) -> None:
    if isinstance(base := entries[0], Base):
        hour.start_anew(base.at, await log.objects(base, KINDS))
    hour.add(entries)


@dataclass
class _Hour:
    """The picture at the last entry of the log, and what it was since ``begin``."""

    cluster: str
    begin: float
    end: float
    history: History = field(default_factory=History)
    decisions: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_DECISIONS))
    feed: Feed = field(init=False)
    _keys: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    """Kind -> key of an object -> UID of a pod, empty for the other kinds."""
    _since: float | None = None
    """Time of the first change that is not in the history."""
    _last: float = 0.0

    def __post_init__(self) -> None:
        self.feed = Feed(Picture(), "recorded", self.cluster, VERSION)

    def start_anew(self, at: float, objects: Mapping[str, Mapping[str, bytes]]) -> None:
        """These are all objects at this time; those that a series before had are gone."""
        self._step(at)
        for kind in KINDS:
            bodies = objects.get(kind, {})
            for key in self._keys[kind].keys() - bodies.keys():
                self._note(kind, key, None)
            for key, body in bodies.items():
                self._note(kind, key, body)

    def add(self, entries: Iterable[Change]) -> None:
        """Entries in order; those after ``end`` are left out."""
        for entry in entries:
            if isinstance(entry, Put) and entry.kind in KINDS and entry.at <= self.end:
                self._step(entry.at)
                self._note(entry.kind, entry.key, entry.record)
            elif isinstance(entry, DecidedHead) and self.begin <= entry.record.at <= self.end:
                self._step(entry.record.at)
                self._decide(entry.record)

    def found(self) -> RecordedHour:
        """All of it."""
        if self._last:
            self._take(max(self._last, self.begin))
        self.history.close()
        return RecordedHour(self.history, list(self.decisions))

    def _note(self, kind: str, key: str, body: bytes | None) -> None:
        # A record of another version is left out, as the live picture does.
        with suppress(msgspec.MsgspecError):
            self.feed.picture.note(kind, key, body)
            if body is None:
                self._keys[kind].pop(key, None)
            else:
                self._keys[kind][key] = _UID.decode(body).uid if kind == PODS else ""

    def _decide(self, record: Head) -> None:
        if row := _row_of(record):
            self.decisions.append(row)
        # An outcome that is left out is that of an earlier record: the same pods wait.
        if record.kind == "plan" and bytes(record.outcome) != b"null":
            why = _PLAN.decode(record.outcome).unschedulable
            keys = {uid: key for key, uid in self._keys[PODS].items() if uid in why} if why else {}
            words = {key: Words(shortened(why[uid]), "") for uid, key in keys.items()}
            self.feed.picture.explain(words)

    def _step(self, at: float) -> None:
        if self._since is not None and at - self._since >= STEP_SECONDS:
            self._take(self._last)
        self._since, self._last = self._since if self._since is not None else at, at

    def _take(self, at: float) -> None:
        """Changes before ``begin`` wait for the first picture."""
        self._since = None
        if at < self.begin:
            return
        body = self.feed.take(at, _TRUSTED)
        if body is not None and self.history.wants_picture(at):
            self.history.add_picture(at, pack(self.feed.snapshot(at)[1]))
        elif body is not None:
            self.history.add_change(at, body)


_UID = msgspec.json.Decoder(_Pod)
_PLAN = msgspec.json.Decoder(_Plan)


def _row_of(record: Head) -> dict[str, Any] | None:
    """A recorded decision as the scheduler's status would list it; None for a round that did nothing."""
    if not record.created and not record.cost:
        return None
    return {
        "id": record.id,
        "at": record.at,
        "kind": record.kind,
        "text": record.text,
        "reason": record.reason,
        "pods": record.pods,
        "machines": [f"+ {name}" for name in record.created],
        "cost": record.cost,
        "bound": record.bound,
        "rejected": [{"what": what, "why": why} for what, why in record.rejected],
        "moves": {},
        "comparable": False,
    }
