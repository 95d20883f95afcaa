"""The entries of the log, one JSON document in a line: the base of a series, the mirror's changes, the records.

A series begins with a base: the digests of blobs that hold all objects at that moment. The changes after it follow
without a gap, so the cluster at a position is the base and the changes up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from shared.simulation.decisions.changes import Base, Put
from shared.simulation.decisions.records import DecisionRecord


class Decided(msgspec.Struct, frozen=True, tag="decided"):
    """One round."""

    record: DecisionRecord


Entry = Base | Put | Decided
_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)
_ENCODER = msgspec.json.Encoder()


def encode_entries(entries: Iterable[Entry]) -> bytes:
    """JSON lines."""
    return b"".join(_ENCODER.encode(entry) + b"\n" for entry in entries)


def decode_entries(document: bytes) -> Iterator[Entry]:
    """Inverse of ``encode_entries``. Raises msgspec.DecodeError, also for another format."""
    for line in document.splitlines():
        yield _DECODER.decode(line)
