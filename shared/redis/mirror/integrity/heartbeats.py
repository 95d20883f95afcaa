"""The watcher's heartbeat, sent every two seconds and with each write: digests of the mirror, positions of its watches.

A heartbeat is bound to its generation. It cannot be made without the key, and a replayed one is detected by its number.
"""

from __future__ import annotations

from hmac import compare_digest

import msgspec

from shared.redis.mirror.integrity.digests import Digester, split


class Position(msgspec.Struct, frozen=True):
    """The position of the watch of one resource."""

    version: str
    """The resourceVersion up to which the mirror holds every change; empty when the resource was never listed."""
    sound: bool
    """Whether the resource was listed, its watch is open, and nothing has failed since."""
    seconds: float
    """While sound: seconds since the API server last sent data. Otherwise: seconds since the watch was last sound."""

    def reached(self, version: str) -> bool:
        """Whether the mirror holds every change up to ``version``. A version that is not a number is never reached."""
        numbers = self.version.isdecimal() and version.isdecimal()
        return int(self.version) >= int(version) if numbers else False


class Heartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """``number`` grows with every heartbeat of one writer."""

    epoch: str
    generation: int
    number: int
    contents: dict[str, str]
    """Kind -> digest of all its entries."""
    positions: dict[str, Position] | None = None
    """Plural of the resource -> position; None means the same as in the previous heartbeat."""


_DECODER = msgspec.json.Decoder(Heartbeat)
_PURPOSE = b"heartbeat"


def seal(heartbeat: Heartbeat, digester: Digester) -> bytes:
    """The heartbeat as bytes: its tag, then its JSON text."""
    text = msgspec.json.encode(heartbeat)
    return digester.tag(_PURPOSE, text) + text


def unseal(value: bytes, digester: Digester) -> Heartbeat | None:
    """The inverse of ``seal``; None for bytes that were not made with this key."""
    tag, text = split(value)
    if not compare_digest(digester.tag(_PURPOSE, text), tag):
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None  # made with the same key by another version
