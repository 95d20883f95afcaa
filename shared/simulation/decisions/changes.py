"""The mirror's part of the log, and the head of each decision. For readers that have no solver."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

FORMAT = 1
"""Grows when an older reader could not read what is written."""


class Versions(msgspec.Struct, frozen=True):
    """What computed a decision."""

    dovetail: str
    commit: str
    """Empty: not known."""
    python: str
    packages: dict[str, str] = {}
    """Of the libraries that plans depend on."""

    def text(self) -> str:
        """For people: ``0.1.0 (commit 0123456789ab)``."""
        return f"{self.dovetail} (commit {self.commit})" if self.commit else self.dovetail


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


class Head(msgspec.Struct, frozen=True):
    """What a decision record says for people; the fields are those of ``DecisionRecord``."""

    id: str
    kind: str
    at: float
    outcome: msgspec.Raw
    text: str
    reason: str = ""
    cost: float | None = None
    bound: float | None = None
    created: tuple[str, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()
    pods: int = 0


class DecidedHead(msgspec.Struct, frozen=True, tag="decided"):
    """One round."""

    record: Head


Change = Base | Put | DecidedHead
_DECODER: msgspec.json.Decoder[Change] = msgspec.json.Decoder(Change)


def decode_changes(document: bytes) -> Iterator[Change]:
    """The entries of a chunk, of each decision its head. Raises msgspec.DecodeError, also for another format."""
    return map(_DECODER.decode, document.splitlines())
