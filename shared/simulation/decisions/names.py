"""Names in the archive.

    <cluster>/<role>/log/<series>/<index>-<first>-<last>-<digest>.zst     chunks: entries of the log, in order
    <cluster>/<role>/blobs/<digest>.zst                                   catalogues, and objects of one kind

``role`` is ``main``, or ``shadow`` for a scheduler that acts on nothing. Times are milliseconds since the epoch: a list
of names is enough to find the chunks of a period.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

MAIN, SHADOW = "main", "shadow"
_CHUNK = re.compile(
    r"^(?P<folder>.*/log)/(?P<series>[^/]+)/(\d{6})-(\d{13})-(\d{13})-([0-9a-f]{16})\.zst$"
)
_MILLISECONDS = 1000


class Chunk(NamedTuple):
    """One chunk, as its name says. Times are seconds since the epoch."""

    name: str
    series: str
    number: int
    first: float
    last: float
    digest: str
    """The beginning of the digest of its entries."""


def role_of(shadow: bool) -> str:
    """Where a scheduler's records are."""
    return SHADOW if shadow else MAIN


def folder(cluster: str, role: str) -> str:
    """What all names of one recording scheduler begin with."""
    return f"{cluster}/{role}/"


def series_name(at: float, suffix: str) -> str:
    """Sorts by time. ``suffix`` tells the series of two processes apart."""
    return f"{_milliseconds(at):013d}-{suffix}"


def series_begin(name: str) -> float:
    """When a series of this name began, in seconds since the epoch."""
    return int(name.partition("-")[0]) / _MILLISECONDS


def chunk_name(base: str, series: str, index: int, first: float, last: float, digest: str) -> str:
    """``base``: as of ``folder``."""
    times = f"{_milliseconds(first):013d}-{_milliseconds(last):013d}"
    return f"{base}log/{series}/{index:06d}-{times}-{digest[:16]}.zst"


def blob_name(base: str, digest: str) -> str:
    """``base``: as of ``folder``."""
    return f"{base}blobs/{digest}.zst"


def chunk_of(name: str) -> Chunk | None:
    """None for what is not a chunk."""
    found = _CHUNK.match(name)
    if found is None:
        return None
    _, series, index, first, last, digest = found.groups()
    return Chunk(
        name, series, int(index), int(first) / _MILLISECONDS, int(last) / _MILLISECONDS, digest
    )


def digest_of(body: bytes) -> str:
    """The name of ``body`` among blobs and outcomes."""
    return hashlib.sha256(body).hexdigest()


def _milliseconds(seconds: float) -> int:
    return round(seconds * _MILLISECONDS)
