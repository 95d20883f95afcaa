"""What of the archive is deleted: whole series, the oldest first, and the blobs that no series needs."""

from __future__ import annotations

from shared.simulation.decisions.names import blob_name, chunk_name, folder
from shared.simulation.decisions.retention import Retention, Stored, surplus

BASE = folder("one", "main")
HOUR = 3600.0
NOW = 1_000_000.0


def chunk(series: str, number: int, first: float, size: int = 100) -> Stored:
    name = chunk_name(BASE, series, number, first, first + 60, "0" * 16)
    return Stored(name, size, first + 60)


def blob(digest: str, written: float, size: int = 100) -> Stored:
    return Stored(blob_name(BASE, digest), size, written)


OLD, MIDDLE, NEW = NOW - 10 * HOUR, NOW - 5 * HOUR, NOW - HOUR
STORED = [
    chunk("a", 0, OLD),
    chunk("a", 1, OLD + 60),
    chunk("b", 0, MIDDLE),
    chunk("c", 0, NEW),
    blob("old", OLD),
    blob("shared", NEW),
]


def names(found: list[str]) -> list[str]:
    return [one.removeprefix(BASE) for one in found]


def deleted(seconds: float, most_bytes: int) -> list[str]:
    return names(surplus(STORED, Retention(seconds, most_bytes), now=NOW))


def test_what_is_young_enough_and_fits_stays() -> None:
    assert deleted(20 * HOUR, 1000) == []


def test_a_series_that_is_too_old_goes_with_the_blobs_that_only_it_needs() -> None:
    found = deleted(8 * HOUR, 1000)
    assert len(found) == 3
    assert found[0].startswith("log/a/000000")
    assert found[-1] == "blobs/old.zst"


def test_the_oldest_series_goes_while_there_is_no_room() -> None:
    assert len(deleted(20 * HOUR, 350)) == 3
    assert len(deleted(20 * HOUR, 250)) == 4


def test_the_newest_series_always_stays() -> None:
    assert not any(name.startswith("log/c/") for name in deleted(0.0, 0))


def test_a_blob_that_a_later_series_wrote_again_stays() -> None:
    assert "blobs/shared.zst" not in deleted(0.0, 0)
