"""Turns what the scheduler hands over into documents of the archive. Plain computation, done in a thread.

A series begins when a decision is about to be made and none is open, and ends after an hour: each can be read without
the ones before it. While nothing is decided (a standby) changes are applied, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from shared.domain.instance_types.types import Catalogue, encode_catalogue
from shared.domain.machines.machine import Machine
from shared.domain.snapshot import Snapshot
from shared.runtime.archive.compression import compress
from shared.simulation.decisions.changes import Base, Put, Versions
from shared.simulation.decisions.contents import Contents, Objects, encode_kind
from shared.simulation.decisions.entries import Decided, Entry, encode_entries
from shared.simulation.decisions.names import (
    blob_name,
    chunk_name,
    digest_of,
    folder,
    role_of,
    series_name,
)
from shared.simulation.decisions.records import (
    DecisionRecord,
    Input,
    Outcome,
    Question,
    encode_outcome,
)
from shared.simulation.decisions.restoring import input_digest, overlay_of

SERIES_SECONDS = 3600.0
MOST_MARKS = 64
"""Moments at which snapshots were taken; what was decided on older ones is not known any more."""
_SAME = msgspec.Raw(b"null")


class Noted(msgspec.Struct, frozen=True, gc=False):
    """A change of the mirror. ``at``: seconds since the epoch."""

    kind: str
    key: str
    body: bytes | None
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class Reset:
    """Changes were lost: from here on these are the objects."""

    objects: Objects
    position: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot for a decision was taken after ``position`` changes. ``shown``: as the mirror had it; ``own``: the
    machines that the scheduler knows beyond it."""

    position: int
    at: float
    shown: Snapshot
    snapshot: Snapshot
    own: tuple[Machine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A decision, as it becomes a ``DecisionRecord``; ``id`` empty: it gets the digest of its input."""

    taken: Taken
    id: str
    at: float
    seconds: float
    epoch: int
    question: Question
    outcome: Outcome
    text: str
    reason: str = ""
    cost: float | None = None
    bound: float | None = None
    created: tuple[str, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()
    pods: int = 0
    timed_out: bool = False


Item = Noted | Reset | Taken | Draft
KINDS = {"PlanQuestion": "plan", "PassQuestion": "pass", "ValidationQuestion": "validation"}


@dataclass(frozen=True, slots=True)
class _Mark:
    series: str
    contents: bytes


@dataclass
class LogWriter:
    """Owned by one thread at a time."""

    cluster: str
    shadow: bool
    versions: Versions
    suffix: str
    """Tells this process's series from those of others."""
    series_bytes: int
    """A series ends when it has so many."""
    ready: list[tuple[str, bytes]] = field(default_factory=list)
    """(name, document) to be stored, in this order: blobs come before the entries that name them."""
    contents: Contents = field(default_factory=Contents)
    records: int = 0
    _position: int = 0
    _generation: int = 0
    _series: str = ""
    _begun: float = 0.0
    _written: int = 0
    _index: int = 0
    _entries: list[Entry] = field(default_factory=list)
    _first: float = 0.0
    _last: float = 0.0
    _marks: dict[int, _Mark] = field(default_factory=dict)
    _blobs: set[str] = field(default_factory=set)
    _outcomes: set[str] = field(default_factory=set)
    _catalogue: tuple[Catalogue, str] | None = None

    @property
    def _base(self) -> str:
        return folder(self.cluster, role_of(self.shadow))

    def work(self, items: Iterable[Item]) -> None:
        """Take over what happened, in order."""
        for item in items:
            if isinstance(item, Noted):
                self._note(item)
            elif isinstance(item, Taken):
                self._mark(item)
            elif isinstance(item, Draft):
                self._decide(item)
            else:
                self._reset(item)

    def flush(self, *, now: float, seconds: float) -> None:
        """Move entries that are older than ``seconds`` to ``ready`` as one chunk."""
        if self._entries and now - self._first >= seconds:
            self._chunk()

    def end_series(self) -> None:
        """What comes next begins anew: documents of this series were lost."""
        self._series = ""
        self._entries.clear()
        self._marks.clear()

    def _note(self, item: Noted) -> None:
        self.contents.put(item.kind, item.key, item.body)
        self._position += 1
        self._generation = item.generation
        if self._series:
            change = Put.of(item.at, item.generation, item.kind, item.key, item.body)
            self._add(change, item.at)

    def _reset(self, item: Reset) -> None:
        self.end_series()
        self.contents, self._position = Contents.of(item.objects), item.position

    def _mark(self, taken: Taken) -> None:
        old = taken.at - self._begun >= SERIES_SECONDS or self._written >= self.series_bytes
        if not self._series or old:
            self._begin(taken.at)
        self._marks[taken.position] = _Mark(self._series, self.contents.digest)
        while len(self._marks) > MOST_MARKS:
            del self._marks[next(iter(self._marks))]

    def _begin(self, at: float) -> None:
        if self._entries:
            self._chunk()
        self._series, self._begun = series_name(at, self.suffix), at
        self._index = self._written = 0
        self._blobs.clear()
        self._outcomes.clear()
        kinds = {
            kind: self._blob(encode_kind(bodies))
            for kind, bodies in sorted(self.contents.kinds.items())
            if bodies
        }
        base = Base(self._series, self._position, self._generation, at, kinds, self.versions)
        self._add(base, at)

    def _decide(self, draft: Draft) -> None:
        # It stays: a pass may look at the same moment as a plan.
        mark = self._marks.get(draft.taken.position)
        if not self._series:
            self._begin(draft.at)
        found = self._input(draft.taken, mark)
        body = encode_outcome(draft.outcome)
        digest = digest_of(body)
        known = digest in self._outcomes
        self._outcomes.add(digest)
        record = DecisionRecord(
            id=draft.id or found.digest[:16],
            kind=KINDS[type(draft.question).__name__],
            at=draft.at,
            seconds=draft.seconds,
            epoch=draft.epoch,
            cluster=self.cluster,
            versions=self.versions,
            input=found,
            question=draft.question,
            outcome_digest=digest,
            outcome=_SAME if known else msgspec.Raw(body),
            text=draft.text,
            reason=draft.reason,
            cost=draft.cost,
            bound=draft.bound,
            created=draft.created,
            rejected=draft.rejected,
            pods=draft.pods,
            shadow=self.shadow,
            timed_out=draft.timed_out,
        )
        self.records += 1
        self._add(Decided(record), draft.at)

    def _input(self, taken: Taken, mark: _Mark | None) -> Input:
        found = Input(
            digest="",
            generation=taken.snapshot.generation,
            catalogue=self._catalogue_blob(taken.snapshot.catalogue),
            unavailable=tuple(sorted(taken.snapshot.unavailable)),
            overlay=overlay_of(taken.shown, taken.snapshot, taken.own),
            shortages=taken.snapshot.shortages,
            series=mark.series if mark else "",
            position=taken.position,
        )
        contents = mark.contents if mark else b""
        return msgspec.structs.replace(found, digest=input_digest(contents, found))

    def _catalogue_blob(self, catalogue: Catalogue) -> str:
        # Equal types are mostly the same objects, so this comparison is cheap; encoding is not.
        if self._catalogue is not None and self._catalogue[0] == catalogue:
            digest = self._catalogue[1]
            if digest in self._blobs:
                return digest
        digest = self._blob(encode_catalogue(catalogue))
        self._catalogue = catalogue, digest
        return digest

    def _blob(self, document: bytes) -> str:
        """Each series stores all its blobs again: the time of writing says which are still needed."""
        digest = digest_of(document)
        if digest not in self._blobs:
            self._blobs.add(digest)
            self._ready(blob_name(self._base, digest), compress(document))
        return digest

    def _add(self, entry: Entry, at: float) -> None:
        if not self._entries:
            self._first = at
        self._last = max(at, self._first)
        self._entries.append(entry)

    def _chunk(self) -> None:
        document = encode_entries(self._entries)
        name = chunk_name(
            self._base, self._series, self._index, self._first, self._last, digest_of(document)
        )
        self._ready(name, compress(document))
        self._index += 1
        self._entries.clear()

    def _ready(self, name: str, document: bytes) -> None:
        self._written += len(document)
        self.ready.append((name, document))


def sizes(ready: Iterable[tuple[str, bytes]]) -> Iterator[int]:
    """Bytes of each document."""
    return (len(document) for _, document in ready)


def copied(objects: Mapping[str, Mapping[str, bytes]]) -> Objects:
    """The same objects in dictionaries of their own."""
    return {kind: dict(bodies) for kind, bodies in objects.items()}
