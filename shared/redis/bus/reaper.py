"""Taking over from slow and dead consumers.

The reaper finds entries in two ways. XAUTOCLAIM finds those that are idle by Redis' clock. A backward jump of that
clock stalls it for the size of the jump (F12), so the reaper also compares heartbeats on its own monotonic clock and
claims everything from a consumer whose heartbeat has not changed for the idle time. A false positive costs a duplicate
delivery, which handlers tolerate. Names of stopped consumers are deleted only when they have no pending entries (F6).
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.concurrency.clock import Clock
from shared.redis.bus.group import ConsumerGroup

CLAIM_PAGE = 100
CLAIM_PAGES = 20
"""Most XAUTOCLAIM steps per call; the next call continues at the kept cursor."""
FORGET_AFTER_SECONDS = 3600.0
PEER_LOOKS = 4
"""How often in the idle time the heartbeats of others are read: XAUTOCLAIM alone finds what is idle, as a rule."""


class PeerWatch:
    """Finds consumers whose heartbeat no longer changes."""

    def __init__(self) -> None:
        self._last_change: dict[str, tuple[bytes | None, float]] = {}

    def silent(self, beats: Mapping[str, bytes | None], now: float, limit: float) -> set[str]:
        """Names whose heartbeat has been the same, or missing, for ``limit`` seconds."""
        known = self._last_change
        self._last_change = {
            name: known[name] if name in known and known[name][0] == beat else (beat, now)
            for name, beat in beats.items()
        }
        return {name for name, (_, since) in self._last_change.items() if now - since >= limit}


class Reaper:
    """Finds entries of other consumers, and failed entries of this one, that may be handled now."""

    def __init__(self, group: ConsumerGroup, clock: Clock, min_idle_seconds: float) -> None:
        self._group = group
        self._clock = clock
        self._min_idle_seconds = min_idle_seconds
        self._watch = PeerWatch()
        self._cursor = "0-0"
        self._next_peers = 0.0

    async def find(self, free: int, *, trust_heartbeats: bool) -> list[str]:
        """At most ``free`` ids, claimed for this consumer. Raises TransientError or GroupMissing.

        ``trust_heartbeats`` is False while this consumer cannot write its own heartbeat: the other consumers then
        cannot write theirs either, and an unchanged heartbeat proves nothing.
        """
        ids = await self._idle(free)
        if trust_heartbeats and self._clock.monotonic() >= self._next_peers:
            ids += await self._of_silent_peers(free - len(ids))
            self._next_peers = self._clock.monotonic() + self._min_idle_seconds / PEER_LOOKS
        return list(dict.fromkeys(ids))

    async def _idle(self, free: int) -> list[str]:
        found: list[str] = []
        milliseconds = round(self._min_idle_seconds * 1000)
        for _ in range(CLAIM_PAGES):
            count = min(free - len(found), CLAIM_PAGE)
            if count <= 0:
                break
            self._cursor, ids = await self._group.claim_idle(milliseconds, self._cursor, count)
            found += ids
            if self._cursor == "0-0":
                break
        return found

    async def _of_silent_peers(self, free: int) -> list[str]:
        peers, beats = await self._group.peers()
        silent = self._watch.silent(beats, self._clock.monotonic(), self._min_idle_seconds)
        found: list[str] = []
        for peer in peers:
            if peer.name not in silent:
                continue
            if peer.pending == 0:
                await self._group.forget(peer.name, FORGET_AFTER_SECONDS)
            elif len(found) < free:
                ids = await self._group.pending_of(peer.name)
                found += ids[: free - len(found)]
        await self._group.claim_now(found)
        return found
