"""The mirror's contents as the log has them, with a digest that follows each change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

_MODULO = 1 << 128
Objects = Mapping[str, Mapping[str, bytes]]
"""kind -> object key -> record."""


@dataclass
class Contents:
    """Objects by kind and key. The digest is a sum over all objects, so a change costs one digest of its object."""

    kinds: dict[str, dict[str, bytes]] = field(default_factory=dict)
    _sum: int = 0
    _summands: dict[str, dict[str, int]] = field(default_factory=dict)
    """What each object adds to the sum, by kind and key."""

    @classmethod
    def of(cls, objects: Objects) -> Contents:
        """Contents with these objects."""
        made = cls()
        for kind, bodies in objects.items():
            made.kinds[kind] = {}
            for key, body in bodies.items():
                made.put(kind, key, body)
        return made

    @property
    def digest(self) -> bytes:
        """Equal for equal contents; 16 bytes."""
        return self._sum.to_bytes(16)

    def put(self, kind: str, key: str, body: bytes | None) -> None:
        """Apply one change; ``body`` None: the object is gone."""
        if (bodies := self.kinds.get(kind)) is None:
            bodies = self.kinds[kind] = {}
        if (summands := self._summands.get(kind)) is None:
            summands = self._summands[kind] = {}
        found = self._sum - summands.pop(key, 0)
        if body is None:
            bodies.pop(key, None)
        else:
            bodies[key] = body
            summands[key] = added = _summand(kind, key, body)
            found += added
        self._sum = found % _MODULO


def _summand(kind: str, key: str, body: bytes) -> int:
    named = f"{len(kind)}:{kind}{len(key)}:{key}".encode()
    return int.from_bytes(blake2b(named + body, digest_size=16).digest())


def encode_kind(bodies: Mapping[str, bytes]) -> bytes:
    """All objects of one kind as JSON lines: key, then record. Equal objects have equal bytes."""
    return b"".join(_lines(sorted(bodies.items())))


def _lines(items: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    for key, body in items:
        yield key.encode()
        yield b"\t"
        yield body
        yield b"\n"


def decode_kind(document: bytes) -> dict[str, bytes]:
    """Inverse of ``encode_kind``."""
    found = {}
    for line in document.split(b"\n"):
        key, tab, body = line.partition(b"\t")
        if tab:
            found[key.decode()] = body
    return found
