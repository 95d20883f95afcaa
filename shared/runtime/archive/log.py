"""Reads the documents of one scheduler's archive: chunks of the log, and blobs. Each is checked against its digest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from shared.errors import InvalidObject
from shared.runtime.archive.compression import decompress
from shared.runtime.archive.store import Store
from shared.simulation.decisions.changes import Base
from shared.simulation.decisions.contents import Objects, decode_kind
from shared.simulation.decisions.names import Chunk, blob_name, chunk_of, digest_of, folder

Entry = TypeVar("Entry")


@dataclass
class Log(Generic[Entry]):
    """``decode``: the entries of a chunk; it raises msgspec.DecodeError. Every method raises Unavailable while the
    store does not work, NotFound for what is gone, and InvalidObject for a damaged document."""

    store: Store
    cluster: str
    role: str
    decode: Callable[[bytes], Iterable[Entry]]
    _chunks: list[Chunk] | None = None

    @property
    def _base(self) -> str:
        return folder(self.cluster, self.role)

    async def chunks(self) -> list[Chunk]:
        """All chunks, in order. The list is read once."""
        if self._chunks is None:
            stored = await self.store.listing(f"{self._base}log/")
            found = (chunk_of(one.name) for one in stored)
            self._chunks = sorted(
                (one for one in found if one), key=lambda one: (one.series, one.number)
            )
        return self._chunks

    async def series_between(self, begin: float, end: float) -> list[str]:
        """Names of the series that have entries from ``begin`` to ``end``, in order."""
        first: dict[str, float] = {}
        last: dict[str, float] = {}
        for chunk in await self.chunks():
            first.setdefault(chunk.series, chunk.first)
            last[chunk.series] = chunk.last
        return [one for one in sorted(first) if last[one] >= begin and first[one] <= end]

    async def chunks_of(self, series: str, end: float = float("inf")) -> list[Chunk]:
        """Those that begin by ``end``, in order."""
        return [one for one in await self.chunks() if one.series == series and one.first <= end]

    async def entries(self, chunk: Chunk) -> list[Entry]:
        """In order."""
        document = decompress(chunk.name, await self.store.get(chunk.name))
        if not digest_of(document).startswith(chunk.digest):
            raise InvalidObject(
                "damaged: its digest differs from its name; remove it", field=chunk.name
            )
        try:
            return list(self.decode(document))
        except msgspec.DecodeError as error:
            raise InvalidObject(
                f"written by a version that this one cannot read ({error})", field=chunk.name
            ) from error

    async def objects(self, base: Base, kinds: Collection[str] | None = None) -> Objects:
        """What a series begins with: the objects of ``kinds``; None: of all."""
        wanted = base.kinds.keys() if kinds is None else base.kinds.keys() & kinds
        return {kind: decode_kind(await self.blob(base.kinds[kind])) for kind in sorted(wanted)}

    async def blob(self, digest: str) -> bytes:
        """Its document."""
        name = blob_name(self._base, digest)
        document = decompress(name, await self.store.get(name))
        if digest_of(document) != digest:
            raise InvalidObject("damaged: its digest differs from its name; remove it", field=name)
        return document
