"""Which documents of the archive may go: those of series that are too old, or for which there is no room. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from shared.simulation.decisions.names import chunk_of

CLOCK_SECONDS = 3600.0
"""A store's clock and ours may differ by less."""


class Stored(NamedTuple):
    """One document of a store."""

    name: str
    size: int
    """Bytes."""
    written: float
    """When it was written last, in seconds since the epoch."""


@dataclass(frozen=True)
class Retention:
    """How long records are kept, in seconds, and how many bytes they may have."""

    seconds: float
    most_bytes: int


def surplus(stored: Iterable[Stored], retention: Retention, *, now: float) -> list[str]:
    """Names to delete, oldest first. The newest series always stays.

    A series goes as a whole, because its chunks need its first one. A blob goes when every series that
    is left began after it was written last: each series writes its blobs again.
    """
    chunks: dict[str, list[Stored]] = {}
    begun: dict[str, float] = {}
    ended: dict[str, float] = {}
    blobs = []
    for one in sorted(stored):
        chunk = chunk_of(one.name)
        if chunk is None:
            blobs.append(one)
            continue
        chunks.setdefault(chunk.series, []).append(one)
        begun.setdefault(chunk.series, chunk.first)
        ended[chunk.series] = chunk.last
    order = sorted(chunks)
    going: list[str] = []
    total = sum(one.size for one in (*blobs, *(c for found in chunks.values() for c in found)))
    for number, series in enumerate(order[:-1], 1):
        if now - ended[series] <= retention.seconds and total <= retention.most_bytes:
            break
        oldest = begun[order[number]] - CLOCK_SECONDS
        old = [blob for blob in blobs if blob.written < oldest]
        blobs = [blob for blob in blobs if blob.written >= oldest]
        dropped = [*chunks[series], *old]
        total -= sum(one.size for one in dropped)
        going += [one.name for one in dropped]
    return going
