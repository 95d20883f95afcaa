"""The history of shortages as one small object outside Redis: what a cluster keeps of it, and shares. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from shared.domain.instance_types.shortages import OfferingKey

Counts = Mapping[int, Mapping[str, int]]
"""Number of a half-life since the epoch -> offering, its parts joined by ``:`` -> shortages in that time."""
FOLDER = "shortage-history"
LONGEST_BYTES = 4 * 2**20


class ShortageRecord(msgspec.Struct, frozen=True):
    """``half_life``: in seconds. ``counts``: as ``Counts``, with numbers as text, as JSON has them."""

    cluster: str
    half_life: float
    counts: dict[str, dict[str, int]] = {}

    @classmethod
    def of(cls, cluster: str, half_life: float, counts: Counts) -> ShortageRecord:
        found = {str(number): dict(held) for number, held in sorted(counts.items()) if held}
        return cls(cluster, half_life, found)

    def numbered(self) -> dict[int, dict[str, int]]:
        """The counts by number; those of another form are left out."""
        return {int(n): held for n, held in self.counts.items() if n.isascii() and n.isdigit()}


_DECODER = msgspec.json.Decoder(ShortageRecord)
_ENCODER = msgspec.json.Encoder(order="sorted")


def record_name(cluster: str) -> str:
    """The object of one cluster in a store."""
    return f"{FOLDER}/{cluster}.json"


def encoded(record: ShortageRecord) -> bytes:
    """As JSON."""
    return _ENCODER.encode(record)


def decoded(document: bytes) -> ShortageRecord | None:
    """None for a document that is too large, or of another version."""
    if len(document) > LONGEST_BYTES:
        return None
    try:
        return _DECODER.decode(document)
    except msgspec.DecodeError:
        return None


def scores_of(
    records: Iterable[ShortageRecord], *, now: float, half_life: float
) -> dict[OfferingKey, float]:
    """The decayed number of shortages by offering, of several clusters together. ``half_life``: the reader's own."""
    found: dict[OfferingKey, float] = {}
    for record in records:
        for number, held in record.numbered().items():
            age = max(0.0, now - number * record.half_life) // half_life
            for member, count in held.items():
                parts = member.split(":", 2)
                if len(parts) == 3 and count > 0:
                    offering = (parts[0], parts[1], parts[2])
                    found[offering] = found.get(offering, 0.0) + count * 0.5**age
    return found
