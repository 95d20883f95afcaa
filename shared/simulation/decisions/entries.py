"""The entries of the log, one JSON document in a line: the base of a series, the mirror's changes, the records.

A series begins with a base: the digests of blobs that hold all objects at that moment. The changes after it follow
without a gap, so the cluster at a position is the base and the changes up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from shared.simulation.decisions.records import FORMAT, DecisionRecord, Versions


class Base(msgspec.Struct, frozen=True, tag="base"):
    """All objects of the mirror at one position."""

    series: str
    position: int
    generation: int
    """Of the mirror."""
    at: float
    kinds: dict[str, str]
    """Kind -> digest of the blob with its objects."""
    versions: Versions
    format: int = FORMAT


_GONE = msgspec.Raw(b"null")


class Put(msgspec.Struct, frozen=True, tag="put"):
    """One change of the mirror."""

    at: float
    """When it was seen, in seconds since the epoch."""
    generation: int
    kind: str
    key: str
    body: msgspec.Raw
    """``null``: the object is gone."""

    @classmethod
    def of(cls, at: float, generation: int, kind: str, key: str, body: bytes | None) -> Put:
        """``body`` None: the object is gone."""
        return cls(at, generation, kind, key, _GONE if body is None else msgspec.Raw(body))

    @property
    def record(self) -> bytes | None:
        """The object's record, None when it is gone."""
        body = bytes(self.body)
        return None if body == bytes(_GONE) else body


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
