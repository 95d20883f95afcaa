"""What the watcher says of itself every two seconds and with each write: what the mirror holds, how far it has watched.

A heartbeat is bound to the generation that it is of. Nobody without the key can make one, and an old one is known by
its number.
"""

from __future__ import annotations

from hmac import compare_digest

import msgspec

from shared.redis.mirror.integrity.digests import Digester, split


class Position(msgspec.Struct, frozen=True):
    """How far the watch of one resource is."""

    version: str
    """The resourceVersion up to which the mirror has every change; empty: it was never listed."""
    sound: bool
    """It was listed, its watch is open, and nothing has failed since."""
    seconds: float
    """While sound: since the API server last sent anything. Else: how long it has not been sound."""

    def reached(self, version: str) -> bool:
        """Has the mirror every change up to ``version``? Versions that cannot be ordered count as not reached."""
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
    """By plural of the resource; None: those of the heartbeat before."""


_DECODER = msgspec.json.Decoder(Heartbeat)
_PURPOSE = b"heartbeat"


def seal(heartbeat: Heartbeat, digester: Digester) -> bytes:
    """For the wire, with its tag."""
    text = msgspec.json.encode(heartbeat)
    return digester.tag(_PURPOSE, text) + text


def unseal(value: bytes, digester: Digester) -> Heartbeat | None:
    """The inverse; None for what the holder of the key did not write."""
    tag, text = split(value)
    if not compare_digest(digester.tag(_PURPOSE, text), tag):
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None  # another version's, with the same key
