"""The course of a recorded period: what the mirror had when it began, then each change, decision and price."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.disruption.candidates import Prices, offering_prices
from shared.errors import NotFound
from shared.runtime.archive.reading import Archive, Seen
from shared.simulation.decisions.changes import Base, Put
from shared.simulation.decisions.entries import Decided, Entry
from shared.simulation.decisions.names import series_begin
from shared.simulation.decisions.records import DecisionRecord


class Priced(NamedTuple):
    """From ``at`` on, in seconds since the epoch, offerings had these prices."""

    at: float
    prices: Prices


Moment = Seen | DecisionRecord | Priced


@dataclass
class History:
    """Reads the log of one archive. ``kinds``: of objects whose changes are wanted."""

    archive: Archive
    kinds: Collection[str]
    gaps: int = 0
    """Series of the log that are not complete: what was in them is known from the next one on."""
    region: str = ""
    """Of the catalogue that was read last."""
    _bodies: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Kind -> key -> record, as of the last change that was read."""
    _catalogue: str = ""
    _prices: Prices | None = None

    async def between(self, begin: float, end: float) -> AsyncIterator[Moment]:
        """All moments up to ``end``, in order. The first ones are the objects that were there at ``begin``, or when
        the log begins. Raises NotFound when nothing is recorded, and what ``Archive`` raises."""
        self._bodies = {kind: {} for kind in self.kinds}
        begun, earlier = False, False
        async for moment in self._moments(begin, end):
            if not begun and moment.at > begin:
                begun = True
                for one in self._start(begin) if earlier else ():
                    yield one
            earlier = True
            if isinstance(moment, Seen):
                self._note(moment)
            if begun:
                yield moment
        if not begun:
            for one in self._start(begin):
                yield one

    def _start(self, at: float) -> Iterator[Moment]:
        if self._prices is not None:
            yield Priced(at, self._prices)
        for kind, bodies in self._bodies.items():
            yield from (Seen(at, kind, key, body) for key, body in bodies.items())

    def _note(self, seen: Seen) -> None:
        bodies = self._bodies[seen.kind]
        if seen.body is None:
            bodies.pop(seen.key, None)
        else:
            bodies[seen.key] = seen.body

    async def _moments(self, begin: float, end: float) -> AsyncIterator[Moment]:
        found = False
        log = self.archive.log
        earlier = await log.series_between(float("-inf"), begin)
        names = sorted({*await log.series_between(begin, end), *earlier[-1:]})
        # A scheduler that leads no more may go on with its log for a while: the next one's counts.
        ends = [*(min(end, series_begin(after)) for after in names[1:]), end][: len(names)]
        for name, last in zip(names, ends, strict=True):
            try:
                async for entries in self.archive.parts(name, last):
                    async for moment in self._read(entries):
                        if moment.at <= last:
                            found = True
                            yield moment
            except NotFound:
                self.gaps += 1
        if not found:
            raise NotFound("nothing is recorded of this time; `dovetail decisions` lists what is")

    async def _read(self, entries: Iterable[Entry]) -> AsyncIterator[Moment]:
        whole = list(entries)
        for entry in whole:
            if isinstance(entry, Base):
                first = next((one.record for one in whole if isinstance(one, Decided)), None)
                if first is not None and (priced := await self._priced(entry.at, first)):
                    yield priced
                async for seen in self._differences(entry):
                    yield seen
            elif isinstance(entry, Put):
                if entry.kind in self._bodies:
                    yield Seen(entry.at, entry.kind, entry.key, entry.record)
            else:
                if priced := await self._priced(entry.record.at, entry.record):
                    yield priced
                yield entry.record

    async def _priced(self, at: float, record: DecisionRecord) -> Priced | None:
        if record.input.catalogue == self._catalogue:
            return None
        catalogue = await self.archive.catalogue(record.input.catalogue)
        self.region = catalogue.region
        self._catalogue, self._prices = record.input.catalogue, offering_prices(catalogue)
        return Priced(at, self._prices)

    async def _differences(self, base: Base) -> AsyncIterator[Seen]:
        """What changed while nothing was recorded, as changes at the moment when the log goes on."""
        there = await self.archive.log.objects(base, self.kinds)
        for kind, known in self._bodies.items():
            now = there.get(kind, {})
            for key in known.keys() - now.keys():
                yield Seen(base.at, kind, key, None)
            for key, body in now.items():
                if known.get(key) != body:
                    yield Seen(base.at, kind, key, body)
