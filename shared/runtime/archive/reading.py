"""Reads the archive: records of a period, and the snapshot that each was decided on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from shared.domain.instance_types.types import Catalogue, decode_catalogue
from shared.domain.labels import SHORT_ID
from shared.domain.snapshot import Snapshot
from shared.errors import InvalidObject, NotFound
from shared.runtime.archive.log import Log
from shared.runtime.archive.store import Store
from shared.simulation.decisions.assembling import DecodedRecords
from shared.simulation.decisions.changes import Base, Put
from shared.simulation.decisions.contents import Contents
from shared.simulation.decisions.entries import Decided, Entry, decode_entries
from shared.simulation.decisions.records import DecisionRecord
from shared.simulation.decisions.restoring import input_digest, restored


class Restored(NamedTuple):
    """A record, complete, and the snapshot that it was decided on."""

    record: DecisionRecord
    snapshot: Snapshot


class Seen(NamedTuple):
    """A change of the mirror at ``at``, in seconds since the epoch; ``body`` None: the object was gone."""

    at: float
    kind: str
    key: str
    body: bytes | None


@dataclass
class _Series:
    """All that was stored of one series."""

    base: Base
    entries: list[Entry]


@dataclass
class Archive:
    """The records of one scheduler. Every method raises Unavailable while the store does not work, and InvalidObject
    for a damaged document."""

    store: Store
    cluster: str
    role: str
    log: Log[Entry] = field(init=False)
    _catalogues: dict[str, Catalogue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = Log(self.store, self.cluster, self.role, decode_entries)

    async def records(
        self, begin: float = float("-inf"), end: float = float("inf")
    ) -> AsyncIterator[DecisionRecord]:
        """Records that were decided from ``begin`` to ``end``, in order, each with its outcome."""
        for series in await self.log.series_between(begin, end):
            async for record in self._records_of(series, end):
                if begin <= record.at <= end:
                    yield record

    async def parts(self, series: str, end: float) -> AsyncIterator[list[Entry]]:
        """The entries of one series up to ``end``, chunk by chunk, each record with its outcome. Raises NotFound where
        a chunk is gone."""
        outcomes: dict[str, msgspec.Raw] = {}
        for number, chunk in enumerate(await self.log.chunks_of(series, end)):
            if chunk.number != number:
                raise NotFound(f"a part of the log is gone: chunk {number} of {series}")
            yield [_whole_entry(one, outcomes) for one in await self.log.entries(chunk)]

    async def _records_of(self, series: str, end: float) -> AsyncIterator[DecisionRecord]:
        outcomes: dict[str, msgspec.Raw] = {}
        for chunk in await self.log.chunks_of(series, end):
            for entry in await self.log.entries(chunk):
                if isinstance(entry, Decided):
                    yield _complete(entry.record, outcomes)

    async def find(self, id_: str) -> DecisionRecord:
        """The newest record with this id that created something, else the newest. The first characters of an id do,
        ``SHORT_ID`` at least, for the newest decision that begins with them. Raises NotFound."""
        found = None
        is_short = len(id_) >= SHORT_ID
        for series in reversed(await self.log.series_between(float("-inf"), float("inf"))):
            async for record in self._records_of(series, float("inf")):
                if record.id != id_ and not (is_short and record.id.startswith(id_)):
                    continue
                if record.created or found is None or not found.created:
                    found = record
            if found is not None and (found.created or found.kind != "plan"):
                return found
        if found is None:
            raise NotFound(
                f"no record of {id_[:100]!r} is kept; `dovetail decisions` lists what is"
            )
        return found

    async def at(self, time: float, kind: str = "") -> DecisionRecord:
        """The latest record up to ``time``, of this kind if one is given. Raises NotFound."""
        for series in reversed(await self.log.series_between(float("-inf"), time)):
            found = None
            async for record in self._records_of(series, time):
                if record.at <= time and kind in ("", record.kind):
                    found = record
            if found is not None:
                return found
        raise NotFound("no record of that time or before is kept; `dovetail decisions` lists them")

    async def restore(self, record: DecisionRecord) -> Restored:
        """The snapshot of this record. Raises NotFound when a part of the log is gone."""
        series = await self._whole(record.input.series)
        contents = await self._begin(series)
        position = series.base.position
        for entry in series.entries:
            if position >= record.input.position:
                break
            if isinstance(entry, Put):
                contents.put(entry.kind, entry.key, entry.record)
                position += 1
        return await self._restored(record, contents, DecodedRecords(), position)

    async def walk(
        self,
        begin: float = float("-inf"),
        end: float = float("inf"),
        lost: list[DecisionRecord] | None = None,
    ) -> AsyncIterator[Restored]:
        """As ``records``, each with its snapshot; one pass over the log. ``lost`` gets the records whose snapshot is
        not complete any more; without it they raise NotFound."""
        due: dict[str, list[DecisionRecord]] = {}
        async for record in self.records(begin, end):
            due.setdefault(record.input.series, []).append(record)
        for series, records in due.items():
            try:
                whole = await self._whole(series)
            except NotFound:
                if lost is None:
                    raise
                lost += records
                continue
            async for found in self._walk_series(whole, records, lost):
                yield found

    async def _walk_series(
        self, series: _Series, records: list[DecisionRecord], lost: list[DecisionRecord] | None
    ) -> AsyncIterator[Restored]:
        contents, decoded = await self._begin(series), DecodedRecords()
        position = series.base.position
        changes = (entry for entry in series.entries if isinstance(entry, Put))
        for record in sorted(records, key=lambda one: one.input.position):
            while position < record.input.position:
                entry = next(changes, None)
                if entry is None:
                    break
                contents.put(entry.kind, entry.key, entry.record)
                position += 1
            try:
                found = await self._restored(record, contents, decoded, position)
            except NotFound:
                if lost is None:
                    raise
                lost.append(record)
            else:
                yield found

    async def changes(self, begin: float, end: float) -> AsyncIterator[Seen]:
        """The mirror's changes from ``begin`` to ``end``, in order."""
        for chunk in await self.log.chunks():
            if chunk.last < begin or chunk.first > end:
                continue
            for entry in await self.log.entries(chunk):
                if isinstance(entry, Put) and begin <= entry.at <= end:
                    yield Seen(entry.at, entry.kind, entry.key, entry.record)

    async def _restored(
        self, record: DecisionRecord, contents: Contents, decoded: DecodedRecords, position: int
    ) -> Restored:
        found = record.input
        if position != found.position or input_digest(contents.digest, found) != found.digest:
            raise NotFound(f"a part of the log is gone: the input of {record.id} is not complete")
        snapshot = restored(contents, decoded, await self.catalogue(found.catalogue), found)
        return Restored(record, snapshot)

    async def catalogue(self, digest: str) -> Catalogue:
        """The catalogue of this digest. Raises NotFound."""
        if digest not in self._catalogues:
            self._catalogues = {digest: decode_catalogue(await self.log.blob(digest))}
        return self._catalogues[digest]

    async def _whole(self, name: str) -> _Series:
        """Raises NotFound when its first chunk, or one in between, is gone."""
        chunks = await self.log.chunks_of(name)
        if not name or not chunks or [c.number for c in chunks] != list(range(len(chunks))):
            raise NotFound(
                "a part of the log is gone: the input of this decision was not recorded, or is deleted"
            )
        entries = [entry for chunk in chunks for entry in await self.log.entries(chunk)]
        base = entries[0]
        if not isinstance(base, Base):
            raise InvalidObject("it does not begin with a base: remove it", field=chunks[0].name)
        return _Series(base, entries)

    async def _begin(self, series: _Series) -> Contents:
        return Contents.of(await self.log.objects(series.base))


def _whole_entry(entry: Entry, outcomes: dict[str, msgspec.Raw]) -> Entry:
    return Decided(_complete(entry.record, outcomes)) if isinstance(entry, Decided) else entry


def _complete(record: DecisionRecord, outcomes: dict[str, msgspec.Raw]) -> DecisionRecord:
    """With its outcome, which may be in an earlier record."""
    if bytes(record.outcome) != b"null":
        outcomes[record.outcome_digest] = record.outcome
        return record
    known = outcomes.get(record.outcome_digest)
    if known is None:
        raise NotFound(f"a part of the log is gone: the outcome of {record.id} is not complete")
    return msgspec.structs.replace(record, outcome=known)
