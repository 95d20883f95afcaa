"""Keyed digests of the mirror's entries (BLAKE2b).

Without ``MIRROR_KEY`` no client can make a digest that readers accept. When no key is set the digests are checksums,
which detect accidental damage only, because the code that makes them is public.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

TAG_BYTES = 16
SUMS_MODULO = 1 << 128
_NO_KEY = b"dovetail, no key"


class EntryDigest(NamedTuple):
    """The digest of one entry. ``tag`` is stored with the entry. ``summand`` is part of its kind's sum and is never
    stored: with known summands an attacker could search for other entries with the same sum."""

    tag: bytes
    summand: int


class Digester:
    """Makes digests with one key."""

    def __init__(self, key: str = "") -> None:
        self._key = blake2b(key.encode() or _NO_KEY, digest_size=32).digest()

    def entry(self, kind: str, key: str, body: bytes) -> EntryDigest:
        """The digest of one entry; an empty ``body`` stands for its deletion."""
        name = f"{len(kind)}:{kind}{len(key)}:{key}".encode()
        hashed = blake2b(name, digest_size=32, key=self._key, person=b"entry")
        hashed.update(body)
        digest = hashed.digest()
        return EntryDigest(digest[:TAG_BYTES], int.from_bytes(digest[TAG_BYTES:]))

    def tag(self, purpose: bytes, text: bytes) -> bytes:
        """The tag of a text. ``purpose``: at most 16 bytes; the same text has different tags for different purposes."""
        return blake2b(text, digest_size=TAG_BYTES, key=self._key, person=purpose).digest()


def split(value: bytes) -> tuple[bytes, bytes]:
    """(tag, body) of a stored value, which is the tag followed by the body."""
    return value[:TAG_BYTES], value[TAG_BYTES:]
